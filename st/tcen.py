"""TCEN: a speech encoder and a text encoder in tandem, pre-trained apart and fine-tuned whole (Wang et al. 2020, AAAI).

Recognition, text translation and speech translation train the parts that they go through, and no part is thrown away::

    L_ASR = CTC(E h + b)                                    h = speech encoder(sound)
    L_MT  = CE(decoder(text encoder(E[path of the text])))
    L_ST  = CE(decoder(text encoder(h)))

E is one matrix: the vectors of the source's pieces and of the blank, and what scores the states h for CTC (only the
bias b is its own). So h is in the space of the vectors that the text encoder reads. A text is read as a path of CTC,
with repeated pieces and blanks, so that it is about as long as the speech that says it. ``recipes/base/tcen.yaml``
composes three stages: L_ASR, L_MT, and the sum of all three.

The trained folder translates speech, and by ``--reads source`` text, and recognises by ``--ctc``.

Differs from the released module, an extension of ESPnet: convolutions halve the frames twice, where LSTM layers skip
some; there is no projection between layers; the decoder attends by dot products and does not read its last context;
layers begin as torch's do, with forget gates open. The second stage begins with the first one's matrix, and goes on
training it.

Differs from the paper, second-hand: the paths that the text encoder reads of parallel text are predicted there, by a
sequence-to-sequence model that has learned from transcripts and the recogniser's paths of them; here they are drawn.

Not established, and chosen here (only abstract and introduction of the paper could be read): sizes, but for the numbers
of layers, 4, 2 and 1, the module's defaults; weights 1 : 1 : 1 of the losses, each a mean of a batch of its own; rate
and updates; how paths are drawn (:class:`PathText`): as many states a piece as are drawn uniformly between
``fewest_states`` and ``most_states``, of which, beyond the pieces and the blank between equal ones, nine tenths are
blanks (``blank_share``). A trained model reads a text as the path in the middle, spread evenly.

Legend: B batch, L length, S states, E width of embeddings, D width, V vocabulary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.growing_text import grown
from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.nn.recurrent import LstmEncoder, RecurrentDecoder
from dragoman.shared.nn.recurrent_translator import RecurrentTranslator
from dragoman.shared.nn.translator import SPEECH
from dragoman.shared.objectives.ctc import Ctc
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Encode
from dragoman.shared.ranges import Range, Share
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.text.normalise import Normalizer
from dragoman.shared.text.tokenizer import Tokenizer
from dragoman.st.tandem import Tandem

#: The batch field of the other input.
SOURCE = "source"


class PathText(TextField):
    """A text as a path of CTC, which becomes its pieces again when repetitions, then blanks are removed.

    A path has as many states for each piece as is drawn uniformly from a range, and a blank between equal pieces. What
    it has beyond the pieces and these blanks are blanks, each at a place drawn among, before and behind the pieces, and
    repetitions, each of a piece drawn among all. Without noise, the number is the middle of the range, and both are
    spread evenly.

    Args:
        column: see ``TextField``. There are no symbols around the text: speech has none.
        tokenizer: whose blank it is.
        normalizers: see ``TextField``.
        language_column: see ``TextField``.
        fewest_states: for each piece, at least 1, where there is a blank between equal pieces and nothing else.
        most_states: for each piece.
        blank_share: the probability that what is added is a blank.
        random: draw; otherwise the path is the one without noise.

    Raises:
        UsageError: if the range is empty.
    """

    def __init__(
        self,
        *,
        column: str = "source_text",
        tokenizer: Tokenizer,
        normalizers: list[Normalizer] | None = None,
        language_column: str | None = None,
        fewest_states: Annotated[float, Range(least=1)],
        most_states: Annotated[float, Range(least=1)],
        blank_share: Share = 0.9,
        random: bool = True,
    ) -> None:
        super().__init__(
            column=column,
            tokenizer=tokenizer,
            prefix=[],
            suffix=[],
            normalizers=normalizers,
            language_column=language_column,
        )
        if fewest_states > most_states:
            raise UsageError(f"need fewest_states <= most_states, not {fewest_states} and {most_states}")
        self.fewest_states = fewest_states
        self.most_states = most_states
        self.blank_share = blank_share
        self.random = random

    def __call__(self, row: Row, rng: np.random.Generator) -> Tensor:
        """Return a path (L,) int64.

        Raises:
            DataError: if the row has no text.
        """
        return torch.from_numpy(self.path(self.pieces(row), rng if self.random else None))

    def path(self, pieces: list[int], rng: np.random.Generator | None) -> np.ndarray:
        """Return a path (L,) int64 of pieces; without a generator, the one without noise."""
        ids, count = np.array(pieces, dtype=np.int64), len(pieces)
        parting = np.zeros(count + 1, dtype=np.int64)  # blanks that there must be, before each piece and behind all
        parting[1:count] = ids[1:] == ids[:-1]
        middle = (self.fewest_states + self.most_states) / 2
        states = middle if rng is None else rng.uniform(self.fewest_states, self.most_states)
        added = max(0, round(states * count) - count - int(parting.sum()))
        blanks = round(self.blank_share * added) if rng is None else int(rng.binomial(added, self.blank_share))
        symbols = np.full(2 * count + 1, self.tokenizer.blank, dtype=np.int64)
        symbols[1::2] = ids
        lengths = np.ones_like(symbols)
        lengths[0::2] = parting + shared_out(blanks, count + 1, rng)
        lengths[1::2] += shared_out(added - blanks, count, rng)
        return np.repeat(symbols, lengths)

    def length(self, row: Row) -> int:
        """Return the greatest length, L, that a path can have."""
        return int(self._longest(np.array(super().length(row))))

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return those numbers for all rows, -1 where there is no text.

        Raises:
            DataError: naming the manifest, if a text cannot be tokenised.
        """
        return self._longest(super().lengths(rows, folder))

    def evaluating(self) -> TextField:
        """Return the field without noise."""
        return type(self)(**self.arguments | {"random": False})

    def _longest(self, lengths: np.ndarray) -> np.ndarray:
        # A text of equal pieces has nearly as many blanks as pieces.
        return grown(lengths, max(2.0, self.most_states), self.overhead)


def shared_out(count: int, places: int, rng: np.random.Generator | None) -> np.ndarray:
    """Return how many of ``count`` things each place has, (places,) int64: drawn, or without a generator evenly."""
    if not places:
        return np.zeros(0, dtype=np.int64)
    if rng is None:
        return np.diff(np.arange(places + 1) * count // places)
    return rng.multinomial(count, np.full(places, 1 / places))


class Tcen(Tandem, RecurrentTranslator):
    """Speech encoder, text encoder, decoder; text enters at the second.

    Args:
        embeddings: {"speech": waveforms to (B, S, E'), "source": TextEmbedding}.
        acoustic: the speech encoder, whose states are as wide as the vectors of the source.
        encoder: the text encoder.
        target_embedding: of the target tokens.
        decoder: which attends to the text encoder's states.
        projection: from the decoder's states to logits.
        heads: {"ctc": CtcHead(tap="acoustic")}, with a projection tied to the source's vectors, or its own for
            comparison.

    Raises:
        ValueError: if an input or the head is missing, or a part does not make what the next one reads.
    """

    def __init__(
        self,
        *,
        embeddings: dict[str, nn.Module],
        acoustic: LstmEncoder,
        encoder: LstmEncoder,
        target_embedding: TextEmbedding,
        decoder: RecurrentDecoder,
        projection: nn.Module,
        heads: dict[str, nn.Module],
    ) -> None:
        source = embeddings.get(SOURCE)
        if {*embeddings} != {SPEECH, SOURCE} or not isinstance(source, TextEmbedding):
            raise ValueError(f"need embeddings of {SPEECH!r} and of the text {SOURCE!r}, not of {list(embeddings)}")
        sound = getattr(embeddings[SPEECH], "width", acoustic.inputs)
        if sound != acoustic.inputs:
            raise ValueError(f"the speech encoder reads width {acoustic.inputs}, but embedded speech has {sound}")
        if not acoustic.width == source.width == encoder.inputs:
            raise ValueError(
                f"the text encoder reads width {encoder.inputs}, the speech encoder's states have {acoustic.width} and "
                f"the source's vectors {source.width}: they must be equal"
            )
        super().__init__(
            embeddings=embeddings,
            acoustic=acoustic,
            encoder=encoder,
            target_embedding=target_embedding,
            decoder=decoder,
            projection=projection,
            heads=heads,
        )

    @property
    def tied(self) -> bool:
        """True if CTC scores states by the vectors of the source."""
        head, source = self.heads["ctc"], self.embeddings[SOURCE]
        assert isinstance(head, CtcHead) and isinstance(source, TextEmbedding)
        return head.projection.weight is source.weight


class AcousticCtc(Ctc):
    """``Ctc`` of a Tcen's speech encoder; nothing above it is computed."""

    def check(self, model: Any) -> None:
        """Refuse a model without a speech encoder of its own, or without the head."""
        if not isinstance(model, Tcen):
            raise UsageError(f"{type(self).__name__} needs a Tcen, not a {type(model).__name__}")
        super().check(model)

    def check_system(self, system: ReadingModel) -> None:
        """Refuse labels of another tokenizer than that of the vectors by which they are scored, too."""
        super().check_system(system)
        source, labels = system.inputs.get(SOURCE), getattr(system, "ctc_output", None)
        if not system.model.tied or not isinstance(source, TextField) or not isinstance(labels, TextField):
            return
        if source.tokenizer.fingerprint != labels.tokenizer.fingerprint:
            raise UsageError("the head 'ctc' scores the pieces of 'source', but its labels have another tokenizer")

    def evaluate(self, model: Any, batch: Batch, encode: Encode) -> dict[str, Term]:
        """Compare all alignments of the labels with the head's output."""
        return self.terms(model, batch, model.heard(batch))
