"""speechbrain's arm of benchmarks/speech_training.py: the modules of its LibriSpeech Transformer recipe, its loss."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import speechbrain
import torch
from speechbrain.lobes.features import Fbank
from speechbrain.lobes.models.convolution import ConvolutionFrontEnd
from speechbrain.lobes.models.transformer.TransformerASR import TransformerASR
from speechbrain.nnet.linear import Linear
from speechbrain.nnet.losses import kldiv_loss
from speechbrain.processing.features import InputNormalization
from torch import Tensor, nn

from benchmarks.speech_training import CHECKED, END, RATE, Work
from benchmarks.training import BETAS, CLIP, EPSILON, SMOOTHING, worker
from benchmarks.worker import serve


class SpeechBrainTrainer:
    """The modules with an optimiser."""

    def __init__(self, work: Work, dropout: float, rate: float) -> None:
        torch.manual_seed(1)
        self.work = work
        convolutions = ConvolutionFrontEnd(
            input_shape=(8, 10, work.bins),
            num_blocks=2,
            num_layers_per_block=1,
            out_channels=[64, 32],
            kernel_sizes=[3, 3],
            strides=[2, 2],
            residuals=[False, False],
            dropout=dropout,
        )
        transformer = TransformerASR(
            tgt_vocab=work.vocabulary,
            input_size=work.bins // 4 * 32,
            d_model=work.width,
            nhead=work.heads,
            num_encoder_layers=work.encoder_layers,
            num_decoder_layers=work.decoder_layers,
            d_ffn=work.feedforward,
            dropout=dropout,
            activation=nn.ReLU,
            normalize_before=True,
            causal=False,
        )
        self.features = Fbank(sample_rate=RATE, n_fft=400, n_mels=work.bins)
        self.normalise = InputNormalization(norm_type="sentence")
        output = Linear(input_size=work.width, n_neurons=work.vocabulary)
        self.model = nn.ModuleList([convolutions, transformer, output]).to(work.device)
        self.features.to(work.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=rate, betas=BETAS, eps=EPSILON, weight_decay=0.0, fused=True
        )
        if work.compile:
            for part in self.model:
                part.compile(dynamic=True)

    def loss_of(self, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Return the loss per token."""
        sounds, prefix, labels = (values.to(self.work.device, non_blocking=True) for values in batch)
        whole = torch.ones(len(sounds), device=sounds.device)
        convolutions, transformer, output = self.model
        with torch.no_grad():
            features = self.normalise(self.features(sounds), whole)
        context: Any = nullcontext()
        if self.work.precision == "bf16":
            context = torch.autocast(self.work.device.split(":")[0], dtype=torch.bfloat16)
        with context:
            _, states = transformer(convolutions(features), prefix, whole, pad_idx=0)
            scores = output(states).log_softmax(-1)
            return kldiv_loss(scores, labels, length=whole, label_smoothing=SMOOTHING, reduction="sum") / labels.numel()

    def update(self, batch: tuple[Tensor, Tensor, Tensor]) -> None:
        """Do one update."""
        self.model.train()
        self.loss_of(batch).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def loss(self, batch: tuple[Tensor, Tensor, Tensor]) -> float:
        """Return the loss per token, without dropout."""
        self.model.eval()
        return self.loss_of(batch).item()


def batch_of(sounds: Tensor, labels: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Make a batch: waveforms, what the decoder reads, what it is asked for."""
    return sounds, torch.tensor([[END, *row[:-1]] for row in labels]), torch.tensor(labels)


def setup() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Set up, as :func:`benchmarks.worker.serve` wants it."""
    work = Work.of_argument()
    batches = [batch_of(*pair) for pair in zip(work.sounds(), work.labels(), strict=True)]
    few = batch_of(work.sounds()[-1][:CHECKED], work.labels()[-1][:CHECKED])
    build = partial(SpeechBrainTrainer, work)
    return worker(build, batches, few, work.seconds, work.device, speechbrain=speechbrain.__version__)


if __name__ == "__main__":
    serve(setup)
