"""fairseq's arm of benchmarks/speech_training.py: s2t_transformer_s, its Trainer; runs in fairseq's own environment."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import fairseq
import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.data.audio.audio_utils import _get_torchaudio_fbank
from fairseq.data.audio.feature_transforms.utterance_cmvn import UtteranceCMVN
from fairseq.data.audio.speech_to_text_dataset import _collate_frames
from fairseq.tasks.speech_to_text import SpeechToTextTask
from torch import Tensor
from torch.utils.data._utils.pin_memory import pin_memory

from benchmarks.fairseq_training import FairseqTrainer, work_on_current_torch
from benchmarks.speech_training import CHECKED, END, RATE, Work
from benchmarks.text_training import padded
from benchmarks.training import worker
from benchmarks.worker import serve


class SpeechTrainer(FairseqTrainer):
    """Makes a batch's features as fairseq's dataset does, one utterance at a time, and then a step.

    For a GPU, features are made before time is taken, as if processes beside it had.
    """

    def __init__(self, work: Work, folder: str, dropout: float, rate: float) -> None:
        flags = [folder, "--task", "speech_to_text", "--arch", "s2t_transformer_s"]
        flags += ["--share-decoder-input-output-embed", "--conv-channels", str(work.channels)]
        for side, layers in (("encoder", work.encoder_layers), ("decoder", work.decoder_layers)):
            flags += [f"--{side}-layers", str(layers)]
            flags += [f"--{side}-ffn-embed-dim", str(work.feedforward), f"--{side}-attention-heads", str(work.heads)]
        flags += ["--encoder-embed-dim", str(work.width), "--decoder-embed-dim", str(work.width)]
        symbols = Dictionary()
        for number in range(len(symbols), work.vocabulary):
            symbols.add_symbol(f"w{number}")
        self.bins, self.normalise = work.bins, UtteranceCMVN()
        self.made: dict[int, dict[str, Any]] | None = None if work.device == "cpu" else {}
        super().__init__(flags, lambda task: SpeechToTextTask(task, symbols), work, dropout, rate)

    def update(self, batch: dict[str, Any]) -> None:
        """Do one update from waveforms."""
        super().update(self.with_features(batch))

    def loss(self, batch: dict[str, Any]) -> float:
        """Return the loss per token, without dropout."""
        return super().loss(self.with_features(batch))

    def with_features(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Replace waveforms by features."""
        if self.made is None:
            return self._with_features(batch)
        if id(batch) not in self.made:
            self.made[id(batch)] = pin_memory(self._with_features(batch))
        return self.made[id(batch)]

    def _with_features(self, batch: dict[str, Any]) -> dict[str, Any]:
        frames = [torch.from_numpy(self.features(sound)) for sound in batch["sounds"]]
        lengths = torch.tensor([len(frame) for frame in frames])
        net_input = batch["net_input"] | {"src_tokens": _collate_frames(frames), "src_lengths": lengths}
        return {name: value for name, value in batch.items() if name != "sounds"} | {"net_input": net_input}

    def features(self, sound: np.ndarray) -> np.ndarray:
        """Return the normalised features of one waveform (1, N) with values of 16 bits."""
        return self.normalise(_get_torchaudio_fbank(sound, RATE, self.bins))


def batch_of(sounds: Tensor, labels: list[list[int]]) -> dict[str, Any]:
    """Make a batch."""
    return {
        "sounds": [sound[None] for sound in (sounds * 2**15).numpy()],
        "id": torch.arange(len(labels)),
        "nsentences": len(labels),
        "ntokens": sum(map(len, labels)),
        "net_input": {"prev_output_tokens": torch.tensor(padded([END, *row[:-1]] for row in labels))},
        "target": torch.tensor(padded(labels)),
    }


def setup() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Set up, as :func:`benchmarks.worker.serve` wants it."""
    work_on_current_torch()
    work = Work.of_argument()
    batches = [batch_of(*pair) for pair in zip(work.sounds(), work.labels(), strict=True)]
    few = batch_of(work.sounds()[-1][:CHECKED], work.labels()[-1][:CHECKED])
    with tempfile.TemporaryDirectory() as folder:
        settings = {"input_channels": 1, "input_feat_per_channel": work.bins, "vocab_filename": "dict.txt"}
        Path(folder, "config.yaml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        build = partial(SpeechTrainer, work, folder)
        return worker(build, batches, few, work.seconds, work.device, fairseq=fairseq.__version__)


if __name__ == "__main__":
    serve(setup)
