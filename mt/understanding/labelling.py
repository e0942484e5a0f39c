"""Systems that label what they read, and write the labels as text, so that they are tested as translators are.

Legend: B texts, W words, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import nn

from dragoman.mt.understanding.heads import WordLabelHead, label_logits
from dragoman.mt.understanding.labels import LabelField
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Field
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Hypothesis
from dragoman.shared.objectives.parts import check_head
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.system import System


class LabellingSystem(System):
    """An encoder with a head that labels texts, or the words of texts.

    Texts have as many hypotheses as a search has beams, labels by falling probability, with its logarithm as the score;
    words have one, whose score is the mean of theirs.

    Args:
        model: an encoder or a translator, with the head.
        inputs: what it reads: one text, whatever it is called.
        output: the field of the labels.
        source_languages: the language codes that it was trained to read.
        head: name in ``model.heads``.

    Raises:
        DataError: for an unknown language code.
        UsageError: if the model has no such head, there is no language, or there are several inputs.
    """

    def __init__(
        self,
        *,
        model: nn.Module,
        inputs: dict[str, Field],
        output: LabelField,
        source_languages: list[str],
        head: str = "label",
    ) -> None:
        super().__init__(
            model=model,
            inputs=inputs,
            output=output,
            output_name="label",
            source_languages=source_languages,
            target_languages=source_languages,
        )
        check_head(model, head)
        if len(inputs) != 1:
            raise UsageError(f"one input is labelled, not {' and '.join(inputs) or 'none'}")
        self.head = head
        labels_words = isinstance(cast(Any, model).heads[head], WordLabelHead)
        self.pipeline = "token-classification" if labels_words else "text-classification"

    @property
    def generator(self) -> None:
        """None: labels are read off the encoder."""
        return None

    def translate_batch(
        self, batch: Batch, search: AnySearch, *, forced: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """Label a batch; the most probable label of each row comes first.

        Raises:
            UsageError: if beginnings are forced.
        """
        if forced is not None:
            raise UsageError("labels have no beginning that could be forced")
        model: Any = self.model
        [field] = self.inputs
        scores = label_logits(model, batch, model.encode(batch, field), self.head, field).float().log_softmax(-1)
        if scores.dim() == 3:  # of words
            values, ids = scores.max(-1)
            lengths = batch[f"{field}.places"].lengths.tolist()
            rows = zip(ids.tolist(), values.tolist(), lengths, strict=True)
            return [[self._labelled(row[:n], sum(each[:n]) / max(n, 1))] for row, each, n in rows]
        values, ids = scores.topk(min(getattr(search, "beam", 1), scores.shape[-1]), -1)
        pairs = zip(ids.tolist(), values.tolist(), strict=True)
        return [[self._labelled([id], score) for id, score in zip(*row, strict=True)] for row in pairs]

    def _labelled(self, ids: list[int], score: float) -> Hypothesis:
        return Hypothesis(ids, score, self.texts_of(ids))
