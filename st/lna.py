"""LNA: a speech encoder and a translator's decoder joined, of which layer norms and attention learn.

Li et al. 2021, arXiv 2010.12829. An encoder of waveforms, a length adaptor of three convolutions (49 Hz to 6 Hz) and
the decoder of a multilingual denoiser make a speech translator without a text encoder in between; the text encoder
stays beside it, for text::

    speech -> waveform encoder -> adaptor --+
                                            +-> decoder -> text,      L = L_ST + L_MT
    text   -> text encoder -----------------+

Most of what was pre-trained stays as it is: in a side that LNA is applied to, only layer norms and attention learn.

Not established: the paper's lists of what learns. Here the speech encoder's norms and self-attention, the decoder's
norms and attention to the encoder, and the adaptor learn (:class:`LnaTuning`); the text encoder does not. Learning
rate, shares, smoothing and masks are those of mt-upc at IWSLT 2021.

Legend: B batch, S states, D model width.
"""

from __future__ import annotations

from typing import Any, cast

from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.translator import MEMORY, SPEECH, Translator
from dragoman.shared.systems.pretrained import speech_front_end, with_speech
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System
from dragoman.shared.training.tuning import Selected


class SpeechBesideText(Translator):
    """A Translator whose decoder attends to embedded speech directly; text goes through the encoder.

    Args:
        embeddings: by batch field; that of "speech" ends with the states (B, S, D) that the decoder attends to.
        encoder: of embedded text.
        target_embedding: of the target tokens.
        decoder: whose layers attend to the memory "source".
        projection: from the decoder's states to logits.
        heads: as those of a Translator, of text alone.
    """

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode one field of a batch; by default speech, if the batch has it."""
        if field == SPEECH or (field is None and SPEECH in batch):
            return Encoding({MEMORY: self.embed(batch, SPEECH)})
        return super().encode(batch, field)


class LnaTuning(Selected):
    """Lets the adaptor learn, and of the speech encoder and the decoder layer norms and attention, or all.

    The convolutions over samples, the text encoder and, below a restricted decoder, the vectors of tokens never learn.
    Below an unrestricted decoder they do, even if the text encoder shares them, as mBART's does.

    Args:
        encoder: restrict the speech encoder to layer norms and self-attention (LNA-E); otherwise all of it learns.
        decoder: restrict the decoder to layer norms and attention to the encoder (LNA-D); otherwise all of it learns.
        self_attention: let the restricted decoder's self-attention learn as well.
    """

    def __init__(self, *, encoder: bool = True, decoder: bool = True, self_attention: bool = False) -> None:
        speech = r"system\.model\.embeddings\.speech\."
        learning = [speech + r"subsampler\..*"]
        if encoder:
            learning.append(speech + r"frontend\.encoder\.(.*norm|.*self_attention)\..*")
        else:
            learning.append(speech + r"frontend\.(?!embedding\.convolutions\.).*")
        if decoder:
            attention = "|.*self_attention" if self_attention else ""
            learning.append(rf"system\.model\.decoder\.(.*norm|.*memory_attention{attention})\..*")
        else:
            learning.append(r"system\.model\.(decoder|target_embedding|projection)\..*")
        super().__init__(parameters="|".join(learning))
        self.decoder = decoder

    def apply(self, module: nn.Module) -> None:
        """Freeze all other parameters of a module."""
        super().apply(module)
        if not self.decoder:  # a shared parameter has one name only, and that may be the source's
            model = cast(Any, module).system.model
            model.target_embedding.requires_grad_(True)
            model.target_embedding.weight.requires_grad_(True)
            model.projection.requires_grad_(True)


def beside(
    *,
    speech: ReadingModel,
    text: System,
    kernels: list[int] | None = None,
    channels: int | None = None,
    dropout: float = 0.1,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
) -> System:
    """Join an encoder of waveforms and a text translator; the adaptor between the first and the decoder is new.

    Args:
        speech: an encoder of waveforms; its heads are left behind.
        text: a Translator, such as an imported mBART, whose inputs and output are those of the new system.
        kernels: of the adaptor's convolutions, each of which halves the frames; [3, 3, 3] by default.
        channels: of the inner convolutions before their gates, which halve them; by default twice the width, as in
            fairseq's adaptor.
        dropout: of what leaves the adaptor.
        source_languages: codes of what will be read; by default those of the text.
        target_languages: codes of what will be written; by default those of the text.

    Raises:
        UsageError: if either is something else.
    """
    above = text.model
    if type(above) is not Translator or text.output_name != "translation":
        raise UsageError(f"text: {type(above).__name__} is no text translator")
    if len(above.heads):
        raise UsageError(f"text: has the heads {', '.join(above.heads)}, which would have no states of speech to read")
    front_end = speech_front_end(
        speech=speech,
        width=above.decoder.width,
        kernels=kernels or [3, 3, 3],
        channels=channels or 2 * above.decoder.width,
        dropout=dropout,
    )
    model = SpeechBesideText(
        embeddings={SPEECH: front_end, **above.embeddings},
        encoder=above.encoder,
        target_embedding=above.target_embedding,
        decoder=above.decoder,
        projection=above.projection,
    )
    return with_speech(
        model=model, speech=speech, text=text, source_languages=source_languages, target_languages=target_languages
    )
