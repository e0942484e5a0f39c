"""Two encoders in tandem: an acoustic one, whose states a CTC head reads, and above it a semantic one.

Each is a stack with a final norm of its own, so that both the head and the upper encoder read normalised states. Text
with an embedding of its own enters at the semantic encoder.

Legend: B sentences, S states, D width.
"""

from __future__ import annotations

from typing import Any, Unpack

from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.nn.recurrent import LstmEncoder
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import SPEECH, FieldEncoder, SidesParts, Translator
from dragoman.shared.padded import Padded

#: The tap that the CTC head reads: the acoustic encoder's states.
ACOUSTIC = "acoustic"


class Tandem(FieldEncoder):
    """An acoustic encoder below that of a translator, which comes after this among the bases of a class.

    Args:
        acoustic: the lower encoder, of embedded speech.
        positions: added to what the upper encoder reads of the lower one, such as SinusoidalPositions; None: none.
        heads: {"ctc": CtcHead(tap="acoustic")} and others.
        parts: the translator's arguments; its ``encoder`` is the upper one.

    Raises:
        ValueError: if there is no head "ctc" that reads the acoustic states, and as the translator does.
    """

    #: The tap that the upper encoder reads.
    READ = ACOUSTIC

    def __init__(
        self,
        *,
        acoustic: Encoder | LstmEncoder,
        positions: nn.Module | None = None,
        heads: dict[str, nn.Module],
        **parts: Any,
    ) -> None:
        head = heads.get("ctc")
        if not isinstance(head, CtcHead) or head.tap != ACOUSTIC:
            raise ValueError(f"an acoustic encoder learns by a head 'ctc' whose tap is {ACOUSTIC!r}")
        super().__init__(heads=heads, **parts)
        self.acoustic = acoustic
        self.positions = positions

    @property
    def taps(self) -> list[int | str]:
        """The semantic encoder's layers, and for speech the acoustic states."""
        return [*super().taps, ACOUSTIC]

    def heard(self, batch: Batch) -> Encoding:
        """Encode speech by the acoustic encoder alone: no memory, and the tap "acoustic" (B, S, D)."""
        states, _ = self.acoustic(self.embed(batch, SPEECH))
        return Encoding({}, {f"tap.{ACOUSTIC}": states})

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode speech by both encoders, or text by the second; by default speech, if the batch has it.

        Returns:
            The memory "source" (B, S, D); of speech, also what :meth:`heard` returns.
        """
        if (field or self.default_field(batch)) != SPEECH:
            return super().encode(batch, field)
        heard = self.heard(batch)
        encoding = self.encode_embedded(self._placed(self.tap(heard, self.READ)))
        return Encoding(encoding.memories, encoding.extras | heard.extras)

    def _placed(self, states: Padded) -> Padded:
        positions = self.positions
        if positions is None:
            return states
        return states.map(lambda values: values + positions(values.shape[1], like=values))


class TandemParts(SidesParts):
    """The arguments of :class:`TandemTranslator` beside ``positions``."""

    acoustic: Encoder
    heads: dict[str, nn.Module]


class TandemTranslator(Tandem, Translator):
    """A tandem of Transformers: a Translator, whose ``encoder`` is the semantic one, above an acoustic encoder.

    Args:
        positions: see :class:`Tandem`.
        parts: of :class:`Tandem` and :class:`Translator`; embeddings of text lead to the semantic encoder at once.
    """

    def __init__(self, *, positions: nn.Module | None = None, **parts: Unpack[TandemParts]) -> None:
        super().__init__(positions=positions, **parts)
