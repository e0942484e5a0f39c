"""The arm of benchmarks/translation that is fairseq 0.12.2; runs in the environment of ``make fairseq-env``."""

from __future__ import annotations

import contextlib
import io
import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

load = torch.load
torch.load = lambda *given, **named: load(*given, **{"weights_only": False, **named})
# Is imported whenever audio is read, and called only if rates or channels differ.
sys.modules["torchaudio.sox_effects"] = types.ModuleType("torchaudio.sox_effects")

import fairseq  # noqa: E402
import torchaudio  # noqa: E402

torchaudio.sox_effects = sys.modules["torchaudio.sox_effects"]

from fairseq import checkpoint_utils  # noqa: E402
from fairseq.data.audio.audio_utils import _get_torchaudio_fbank  # noqa: E402
from fairseq.data.audio.feature_transforms.utterance_cmvn import UtteranceCMVN  # noqa: E402
from fairseq.data.audio.speech_to_text_dataset import _collate_frames  # noqa: E402
from fairseq.data.data_utils import collate_tokens  # noqa: E402
from fairseq.modules import TransformerEncoderLayer  # noqa: E402
from fairseq.sequence_generator import SequenceGenerator  # noqa: E402

from benchmarks.translation.work import BEAM, LONGEST, Task, arguments, work  # noqa: E402


def work_on_current_torch() -> None:
    """Leave out the fused encoder layer, which current torch refuses; and let variances be taken in float64."""
    normalise, build = UtteranceCMVN.__call__, TransformerEncoderLayer.__init__
    UtteranceCMVN.__call__ = lambda self, x: normalise(self, x.astype("f8")).astype("f4")

    def without_fast_path(self: Any, *given: Any, **named: Any) -> None:
        build(self, *given, **named)
        self.can_use_fastpath = False

    TransformerEncoderLayer.__init__ = without_fast_path


def collated(task: Task, inputs: Sequence[Any]) -> dict[str, torch.Tensor]:
    """Return a batch as fairseq's datasets make it: tokens padded on the left, or normalised features."""
    if task.folder.name == "text":
        rows = [torch.tensor(row) for row in inputs]
        tokens = collate_tokens(rows, 1, 2, left_pad=True)
        return {"src_tokens": tokens, "src_lengths": torch.tensor([len(row) for row in rows])}
    normalise = UtteranceCMVN()
    features = [normalise(_get_torchaudio_fbank((row * 2**15)[None], 16000, 80)) for row in inputs]
    frames = [torch.from_numpy(np.asarray(one)) for one in features]
    lengths = torch.tensor([len(one) for one in frames])
    return {"src_tokens": _collate_frames(frames), "src_lengths": lengths}


def main() -> None:
    """Serve."""
    task = arguments()
    work_on_current_torch()
    torch.set_grad_enabled(False)
    folder = task.folder / "fairseq"
    with contextlib.redirect_stdout(io.StringIO()):
        models, _, setup = checkpoint_utils.load_model_ensemble_and_task(
            [str(folder / "checkpoint.pt")], arg_overrides={"data": str(folder)}
        )
    for model in models:
        model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
        model.to(task.device).eval()
    generator = SequenceGenerator(
        models,
        setup.target_dictionary,
        beam_size=BEAM,
        max_len_b=task.length or LONGEST,
        min_len=task.length or 1,
    )

    def translate(inputs: Sequence[Any]) -> list[list[int]]:
        batch = {name: value.to(task.device) for name, value in collated(task, inputs).items()}
        return [found[0]["tokens"].tolist() for found in generator.generate(models, {"net_input": batch})]

    work(task, {"fairseq": fairseq.__version__, "torch": torch.__version__}, translate)


if __name__ == "__main__":
    main()
