"""The time of our training step, by kernel (on a GPU) or operation (on a CPU).

    python -m benchmarks.step_profile text_base [--rows 25] [--compile] [--threads 2]

The name is that of a benchmark of training steps; one repetition of its first arm, ours, is looked at.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks import gpu_training, speech_ours, speech_training, text_ours, text_training
from benchmarks.ours import Trainer
from benchmarks.side_by_side import cores
from benchmarks.tables import table
from benchmarks.training import RATE
from dragoman.shared.machine.workspace import Workspace

KNOWN = text_training.BENCHMARKS | speech_training.BENCHMARKS | gpu_training.BENCHMARKS


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=KNOWN)
    parser.add_argument("--rows", type=int, default=25)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=cores())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arm = KNOWN[arguments.name]().arms[0]
    module = {"benchmarks.text_ours": text_ours, "benchmarks.speech_ours": speech_ours}[arm.command[1]]
    sys.argv = ["", arm.command[2]]
    work = replace(module.Work.of_argument(), compile=arguments.compile)
    place = Workspace(Path(), device=work.device, precision=work.precision, compile=work.compile)
    trainer = Trainer(module.translator(work, 0.1), place, RATE, module.names)
    batches = module.batches(work)
    for batch in batches * 2:
        trainer.update(batch)
    on_gpu = work.device != "cpu"
    kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_gpu
    with profile(activities=kinds) as found:
        for batch in batches:
            trainer.update(batch)
        if on_gpu:
            torch.cuda.synchronize()
    events = [
        (event.self_device_time_total if on_gpu else event.self_cpu_time_total, event.key, event.count)
        for event in found.key_averages()
        # On a GPU kernels alone: the operations that start them have their time as well.
        if not on_gpu or (event.device_type == DeviceType.CUDA and not event.is_user_annotation)
    ]
    whole = sum(time for time, _, _ in events)
    rows = [["", "ms", "share", "calls"]]
    for time, name, count in sorted(events, reverse=True)[: arguments.rows]:
        rows.append([name[:70].replace("|", "/"), f"{time / 1000:.2f}", f"{time / whole:.1%}", str(count)])
    print(f"{arguments.name}, {json.dumps(arm.name)}: {whole / 1e6:.3f} s in all, of {len(batches)} updates\n")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
