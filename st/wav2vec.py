"""wav2vec: convolutions over sound learn to tell what follows from what does not.

Schneider et al. 2019, arXiv 1904.05862, section 2. An encoder turns a waveform into latent frames z, one every 10 ms,
and an aggregator of causal convolutions sums up in c_i what has been heard up to frame i. For each of K steps k,

    L_k = - sum_i ( log s(z_{i+k} . h_k(c_i)) + sum over n negatives z' of log s(-z' . h_k(c_i)) ),

where s is the sigmoid, h_k an affine map of each step, and negatives are other frames of the same utterance. The loss
is sum_k L_k. A recogniser or a translator then reads c in the place of filterbanks.

Neighbouring frames share samples, which would tell them from others without anything learned: the first step that is
predicted is the first that shares none. The paper does not say so; the authors' code does it.

Differs from fairseq, the authors' code: norms over an utterance leave its padding out, and each step's map has a
summand of its own, where the code's maps share one.

Legend: B batch, N samples, S frames, C channels, K steps, n negatives.
"""

from __future__ import annotations

import math
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.nn.frame_norms import WholeNorm
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.spans import others
from dragoman.shared.nn.waveform import WaveformConvolutions
from dragoman.shared.objectives.objective import Loss, Objective, Term
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveFloat, PositiveInt
from dragoman.shared.systems.reading_model import ReadingModel

#: The batch's field of drawn negatives (B, S, n) int64, which number the row's frames.
NEGATIVES = "negatives"


class CausalConvolution(nn.Module):
    """A convolution over the present and earlier frames, its norm and ReLU; before the first frame, that is repeated.

    Args:
        channels: C.
        kernel: in frames.
    """

    def __init__(self, *, channels: int, kernel: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.convolution = nn.Conv1d(channels, channels, kernel)
        self.norm = WholeNorm(channels=channels)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Convolve x (B, C, S), of which ``lengths`` (B,) are real."""
        return F.relu(self.norm(self.convolution(F.pad(x, (self.kernel - 1, 0), mode="replicate")), lengths))


class Aggregator(Described, nn.Module):
    """Causal convolutions one above another: what has been heard up to each frame.

    Args:
        channels: C.
        kernels: of each, in frames.
        skip: add what enters a convolution to what leaves it.
        residual_scale: r; each such sum is multiplied by sqrt(r).

    Raises:
        ValueError: without a kernel.
    """

    def __init__(
        self, *, channels: int, kernels: list[PositiveInt], skip: bool = True, residual_scale: PositiveFloat = 0.5
    ) -> None:
        super().__init__()
        if not kernels:
            raise ValueError("an aggregator needs kernels")
        self.channels = channels
        self.skip = skip
        self.scale = math.sqrt(residual_scale)
        self.layers = nn.ModuleList(CausalConvolution(channels=channels, kernel=kernel) for kernel in kernels)

    def forward(self, frames: Padded) -> Padded:
        """Sum up frames (B, S, C): (B, S, C)."""
        x = frames.values.transpose(1, 2)
        for layer in self.layers:
            convolved = layer(x, frames.lengths)
            x = (x + convolved) * self.scale if self.skip else convolved
        return Padded(x.transpose(1, 2), frames.lengths)


class Wav2Vec(Described, nn.Module):
    """A front end of a SpeechEmbedding: waveforms to contexts c.

    Args:
        convolutions: from samples to latent frames.
        aggregator: of these.
        log_compression: take log(1 + |z|) of what leaves the convolutions.
        frozen: nothing learns, as published for what reads c; with ``gradient_scale`` 0 only the convolutions do not.

    Raises:
        ValueError: if the channels differ.
    """

    def __init__(
        self,
        *,
        convolutions: WaveformConvolutions,
        aggregator: Aggregator,
        log_compression: bool = True,
        frozen: bool = False,
    ) -> None:
        super().__init__()
        if convolutions.channels != aggregator.channels:
            raise ValueError(f"{convolutions.channels} channels cannot enter an aggregator of {aggregator.channels}")
        self.convolutions = convolutions
        self.aggregator = aggregator
        self.log_compression = log_compression
        self.frozen = frozen
        #: For the subsampler that reads c: the size of its vectors, and the samples from one to the next.
        self.bins, self.hop = aggregator.channels, convolutions.hop
        if frozen:
            self.requires_grad_(False)

    def lengths(self, samples: Tensor) -> Tensor:
        """Return how many frames rows of `samples` samples have, (B,) int64."""
        return self.convolutions.lengths(samples)

    def latents(self, speech: Padded) -> Padded:
        """Return z (B, S, C) of waveforms (B, N) in [-1, 1]."""
        frames = self.convolutions(speech)
        return frames.map(lambda values: values.abs().log1p()) if self.log_compression else frames

    def forward(self, speech: Padded) -> Padded:
        """Return c (B, S, C) of waveforms (B, N) in [-1, 1]."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            return cast(Padded, self.aggregator(self.latents(speech)))


class FutureModel(Described, nn.Module):
    """The model that is pre-trained: the front end, and the map h_k of each step, which is not needed later.

    Args:
        frontend: of any sizes.
        steps: K, how many frames are predicted from each context.
    """

    def __init__(self, *, frontend: Wav2Vec, steps: PositiveInt = 12) -> None:
        super().__init__()
        self.frontend = frontend
        self.steps = steps
        self.maps = Linear(frontend.bins, steps * frontend.bins)

    def predictions(self, contexts: Tensor) -> Tensor:
        """Return h_k(c) (B, S, K, C) of contexts (B, S, C)."""
        return cast(Tensor, self.maps(contexts).unflatten(-1, (self.steps, -1)))


class FuturePrediction(Objective):
    """The loss of wav2vec.

    Its terms are per pair of a context and a frame that it predicts: "prediction"; and, for the record alone,
    "accuracy", the share of pairs whose frame is scored above all negatives.

    Args:
        system: with a FutureModel that reads "speech".
        negatives: n, drawn anew for each frame, with repetition.
        offset: the first step that is predicted, in frames; None: the first frame that shares no sample with c_i's own.

    Raises:
        UsageError: if the model is another one.
    """

    prepares_alone: ClassVar[bool] = True

    def __init__(self, *, system: ReadingModel, negatives: PositiveInt = 10, offset: PositiveInt | None = None) -> None:
        super().__init__()
        if not isinstance(system.model, FutureModel):
            raise UsageError(f"future frames are predicted by a FutureModel, not by a {type(system.model).__name__}")
        convolutions = system.model.frontend.convolutions
        self.system = system
        self.negatives = negatives
        self.offset = offset or math.ceil(convolutions.window / convolutions.hop)

    @property
    def model(self) -> FutureModel:
        """The model that is trained."""
        return cast(FutureModel, self.system.model)

    def prepare(self, batch: Batch) -> Batch:
        """Draw negatives for every frame: other frames of its row.

        Raises:
            DataError: naming a row that has one frame.
        """
        lengths = self.model.frontend.lengths(batch["speech"].lengths)
        if int(lengths.min()) < 2:
            row = int(lengths.argmin())
            raise DataError(
                f"row {batch.ids[row] if batch.ids else row!r} has one frame, and a frame is told from others only: "
                "leave out short rows (minimum_seconds)"
            )
        return batch.with_fields(**{NEGATIVES: Padded(others(lengths, self.negatives), lengths)})

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of pairs, for each term."""
        lengths = batch[NEGATIVES].lengths
        steps = torch.arange(self.offset, self.offset + self.model.steps, device=lengths.device)
        return dict.fromkeys(("prediction", "accuracy"), (lengths[:, None] - steps).clamp(min=0).sum())

    def forward(self, batch: Batch) -> Loss:
        """Return the loss of a prepared batch."""
        negatives = batch[NEGATIVES]
        latents = self.model.frontend.latents(batch["speech"])
        predicted = self.model.predictions(self.model.frontend.aggregator(latents).values)
        rows = torch.arange(len(latents.lengths), device=latents.lengths.device)[:, None, None]
        # Each frame, and its negatives behind it: (B, S, 1 + n, C).
        compared = torch.cat([latents.values[:, :, None], latents.values[rows, negatives.values]], dim=2)
        loss, accurate = predicted.new_zeros((), dtype=torch.float32), predicted.new_zeros((), dtype=torch.int64)
        for step in range(self.model.steps):
            away = self.offset + step
            real = latents.mask[:, away:]
            pairs = torch.einsum("bsc,bsnc->bsn", predicted[:, : real.shape[1], step], compared[:, away:])[real].float()
            loss = loss + F.softplus(-pairs[:, 0]).sum() + F.softplus(pairs[:, 1:]).sum()
            accurate = accurate + (pairs[:, 0] > pairs[:, 1:].amax(1)).sum()
        count = self.counts(batch)["prediction"]
        return Loss({"prediction": Term(loss, count), "accuracy": Term(accurate, count, 0.0)})
