"""Systems that label what they read, and write the labels as text, so that they are tested as translators are.

Legend: B texts, W words or windows, L tokens, C labels, K lengths of spans.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from dragoman.mt.understanding.heads import WordLabelHead, label_logits
from dragoman.mt.understanding.spans import AnswerField, WindowsField, windows_of
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.generator import Hypothesis
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.objectives.parts import check_head
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.system import System

#: Windows that are encoded at a time.
MOST_WINDOWS = 64


class HeadedSystem(System):
    """Base class of systems that write what a head reads off an encoder.

    Args:
        model: an encoder or a translator, with the head.
        inputs: what it reads: one text, whatever it is called. Users give two texts with a tab between them.
        output: the field of what is written.
        source_languages: the language codes that it was trained to read.
        head: name in ``model.heads``.

    Raises:
        DataError: for an unknown language code.
        UsageError: if the model has no such head, there is no language, or there are several inputs.
    """

    #: The key of the output in ``Hypothesis.texts``.
    written: ClassVar[str]

    def __init__(
        self,
        *,
        model: nn.Module,
        inputs: dict[str, Field],
        output: TextField,
        source_languages: list[str],
        head: str = "label",
    ) -> None:
        super().__init__(
            model=model,
            inputs=inputs,
            output=output,
            output_name=self.written,
            source_languages=source_languages,
            target_languages=source_languages,
        )
        check_head(model, head)
        if len(inputs) != 1:
            raise UsageError(f"one input is labelled, not {' and '.join(inputs) or 'none'}")
        self.head = head

    @property
    def generator(self) -> None:
        """None: what is written is read off the encoder."""
        return None

    def text_row(self, item: str | Path) -> dict[str, Any]:
        """Return the row of a text that a user gives, or of two with a tab between them.

        Raises:
            DataError: for another number of texts.
        """
        row = super().text_row(item)
        [field] = self.inputs.values()
        columns = getattr(field, "columns", ["source_text"])
        texts = row["source_text"].split("\t") if len(columns) > 1 else [row["source_text"]]
        if len(texts) != len(columns) and not (len(texts) == 1 and getattr(field, "alone", False)):
            wanted = " and ".join(column.removesuffix("_text") for column in columns)
            raise DataError(f"{row['id']!r}: this system reads {wanted}, with a tab between them")
        return row | dict(zip(columns, texts, strict=False))

    def translate_batch(
        self, batch: Batch, search: AnySearch, *, forced: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """Label a batch; the most probable output of each row comes first.

        Raises:
            UsageError: if beginnings are forced.
        """
        if forced is not None:
            raise UsageError("labels have no beginning that could be forced")
        [field] = self.inputs
        return self.labelled(batch, field, getattr(search, "beam", 1))

    @abstractmethod
    def labelled(self, batch: Batch, field: str, best: int) -> list[list[Hypothesis]]:
        """Return the best outputs of each row of a batch."""


class LabellingSystem(HeadedSystem):
    """An encoder with a head that labels texts, or the words of texts.

    Texts have as many hypotheses as a search has beams, labels by falling probability, with its logarithm as the score;
    words have one, whose score is the mean of theirs. Arguments and errors are those of :class:`HeadedSystem`.
    """

    written = "label"

    @property
    def pipeline(self) -> str:  # type: ignore[override]
        """The Hub's name for labelling words or texts."""
        of_words = isinstance(cast(Any, self.model).heads[self.head], WordLabelHead)
        return "token-classification" if of_words else "text-classification"

    def labelled(self, batch: Batch, field: str, best: int) -> list[list[Hypothesis]]:
        """Return labels by their probability."""
        model: Any = self.model
        scores = label_logits(model, batch, model.encode(batch, field), self.head, field).float().log_softmax(-1)
        if scores.dim() == 3:  # of words
            values, ids = scores.max(-1)
            lengths = batch[f"{field}.places"].lengths.tolist()
            rows = zip(ids.tolist(), values.tolist(), lengths, strict=True)
            return [[self._labelled(row[:n], sum(each[:n]) / max(n, 1))] for row, each, n in rows]
        values, ids = scores.topk(min(best, scores.shape[-1]), -1)
        pairs = zip(ids.tolist(), values.tolist(), strict=True)
        return [[self._labelled([id], score) for id, score in zip(*row, strict=True)] for row in pairs]

    def _labelled(self, ids: list[int], score: float) -> Hypothesis:
        return Hypothesis(ids, score, self.texts_of(ids))


class AnsweringSystem(HeadedSystem):
    """An encoder with a head that finds the answer to a question in a text (Devlin et al. 2019, section 4.2).

    A span's score is that of its first token plus that of its last, in any window. There are as many hypotheses as a
    search has beams, with the logarithm of their probability among all spans of all windows as the score; their tokens
    are from which to which character of the text they stand, and in their texts, white space is one space.

    Differs from the authors' code, which pairs the 20 best first tokens with the 20 best last ones of each window, and
    takes a first token only in the window where it has most context: here all spans of all windows compete.

    Args:
        model: an encoder or a translator, with the head.
        inputs: a :class:`~dragoman.mt.understanding.spans.WindowsField`, whatever it is called.
        output: the field of answers.
        source_languages: the language codes that it was trained to read.
        head: name of a :class:`~dragoman.mt.understanding.heads.SpanHead` in ``model.heads``.
        longest: the most tokens of an answer.

    Raises:
        DataError: for an unknown language code.
        UsageError: if the model has no such head, there is no language, or the input is another one.
    """

    written = "answer"
    pipeline = "question-answering"
    sentence = "Answers questions about {language} text."

    def __init__(
        self,
        *,
        model: nn.Module,
        inputs: dict[str, Field],
        output: AnswerField,
        source_languages: list[str],
        head: str = "label",
        longest: PositiveInt = 30,
    ) -> None:
        super().__init__(model=model, inputs=inputs, output=output, source_languages=source_languages, head=head)
        for name, field in inputs.items():
            if not isinstance(field, WindowsField):
                raise UsageError(f"answers are found in a WindowsField, but {name!r} is a {type(field).__name__}")
        self.longest = longest

    def labelled(self, batch: Batch, field: str, best: int) -> list[list[Hypothesis]]:
        """Return answers by their probability; an empty one for a text without a character."""
        windows = windows_of(batch, field)
        counts = batch[f"{field}.windows"].lengths.tolist()
        scores = torch.cat([*self._scores(windows, field)])  # (W, L, K)
        begins, ends = windows[f"{field}.places"].values.unbind(-1)
        spans = begins[..., None].expand_as(scores), _following(ends, self.longest, 0)
        texts = batch[f"{field}.characters"].rows()
        parts = zip(*(part.split(counts) for part in (scores, *spans)), texts, strict=True)
        return [self._answers(*part, best=best) for part in parts]

    def _scores(self, windows: Batch, field: str) -> Iterator[Tensor]:
        """Yield the scores (W, L, K) of spans by their first token and their length, -inf for what is none."""
        model: Any = self.model
        for some in windows.divided(MOST_WINDOWS):
            logits = model.heads[self.head](model.encode(some, field).memories[MEMORY])
            begins, ends = some[f"{field}.places"].values.unbind(-1)
            first, last = logits.masked_fill((begins >= ends)[..., None], -torch.inf).unbind(-1)
            yield first[..., None] + _following(last, self.longest, -torch.inf)

    def _answers(self, scores: Tensor, begins: Tensor, ends: Tensor, text: Tensor, *, best: int) -> list[Hypothesis]:
        """Return the best spans of a text, of all (W, L, K) that its windows have."""
        most = min(scores.numel(), best * len(scores))  # windows have spans in common
        values, numbers = scores.flatten().log_softmax(0).topk(most)
        found: dict[tuple[int, int], float] = {}
        spans = torch.stack([begins.flatten(), ends.flatten()], dim=1)[numbers].tolist()
        for (begin, end), score in zip(spans, values.tolist(), strict=True):
            if len(found) < best and score > -torch.inf:
                found.setdefault((begin, end), score)
        if not found:
            return [self.empty_output()]
        return [Hypothesis([*span], score, self._texts(text[slice(*span)])) for span, score in found.items()]

    def _texts(self, characters: Tensor) -> dict[str, str]:
        return {self.written: " ".join("".join(map(chr, characters.tolist())).split())}


def _following(values: Tensor, count: int, padding: float) -> Tensor:
    """Return for each of values (W, L) itself and those behind it, (W, L, count)."""
    return nn.functional.pad(values, (0, count - 1), value=padding).unfold(1, count, 1)
