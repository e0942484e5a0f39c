"""The GPU of a machine: its ceilings, what is missing beside it, and how busy it is.

    python -m benchmarks.graphics [--device cuda] [--json FILE]

The ceilings are those of one large product of matrices, of a copy on the device, and of a copy to it from pinned
memory. A package is missing if it cannot be imported: `make offline` gathers those that a machine without a network
lacks.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any

#: Names by which what `make gpu` runs is imported; the last two only for some of its steps.
PACKAGES = (
    *("torch", "torchaudio", "numpy", "sentencepiece", "tokenizers", "hyperpyyaml", "ruamel.yaml", "yaml", "sacrebleu"),
    *("soundfile", "pyarrow", "safetensors", "rapidfuzz", "tensorboard", "matplotlib", "typer", "rich", "pytest"),
    *("hypothesis", "bitsandbytes", "transformers"),
)
SAMPLES_EVERY = 200  # milliseconds
SECONDS = 1.0  # that each ceiling is measured for, about


class Sampler:
    """Watches a GPU with nvidia-smi while it is entered; where that is missing, nothing is known afterwards."""

    QUERY = ("utilization.gpu", "memory.used")

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.output: IO[bytes] = TemporaryFile()

    def __enter__(self) -> Sampler:
        if program := shutil.which("nvidia-smi"):
            command = [program, f"--query-gpu={','.join(self.QUERY)}", "--format=csv,noheader,nounits", "--id=0"]
            command.append(f"--loop-ms={SAMPLES_EVERY}")
            self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def found(self) -> dict[str, float]:
        """Return mean and largest utilisation (per cent) and the most memory used (GB, by all processes)."""
        self.output.seek(0)
        return busy(self.output.read().decode())


def busy(lines: str) -> dict[str, float]:
    """Read what nvidia-smi has written; nothing if it knew nothing."""
    rows = []
    for line in lines.splitlines():
        try:
            utilisation, memory = map(float, line.split(","))
        except ValueError:  # a last line that was cut off, or "[N/A]"
            continue
        rows.append((utilisation, memory * 2**20 / 1e9))
    if not rows:
        return {}
    utilisations = [utilisation for utilisation, _ in rows]
    most = max(memory for _, memory in rows)
    return {
        "mean_percent": round(mean(utilisations), 1),
        "most_percent": max(utilisations),
        "memory_gb": round(most, 2),
    }


def missing() -> dict[str, str]:
    """Return the packages that cannot be imported, with the reason."""
    found = {}
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except Exception as error:  # a library of its own that is missing raises anything
            found[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return found


def rate(action: Callable[[], object], device: str) -> float:
    """Return how often an action is done in a second."""
    import torch

    def seconds(times: int) -> float:
        if device != "cpu":
            torch.cuda.synchronize()
        clock = time.perf_counter()
        for _ in range(times):
            action()
        if device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter() - clock

    seconds(2)
    times = max(1, round(SECONDS / max(seconds(2) / 2, 1e-6)))
    return times / seconds(times)


def peak(device: str, precision: str) -> float:
    """Return the floating point operations a second of one large product."""
    import torch

    size = 8192 if device != "cpu" else 512
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[precision]
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 * rate(lambda: torch.mm(a, b), device)


def described(device: str) -> dict[str, Any]:
    """Return what the machine is, and its ceilings."""
    import torch

    found: dict[str, Any] = {"python": platform.python_version(), "torch": torch.__version__, "missing": missing()}
    found["compilers"] = [name for name in ("gcc", "g++", "nvcc") if shutil.which(name)]
    size = 2**30 if device != "cpu" else 2**24
    source, copy = (torch.randint(0, 255, (size,), dtype=torch.uint8, device=device) for _ in range(2))
    found["copied_gb_per_second"] = round(2 * size * rate(lambda: copy.copy_(source), device) / 1e9, 1)
    found["tflops"] = {name: round(peak(device, name) / 1e12, 2) for name in ("fp32", "bf16")}
    if device == "cpu":
        return found
    properties = torch.cuda.get_device_properties(0)
    capability = f"{properties.major}.{properties.minor}"
    found["gpu"] = {"name": properties.name, "gb": round(properties.total_memory / 1e9, 1), "capability": capability}
    found["cuda"] = torch.version.cuda
    pinned = torch.empty(2**28, dtype=torch.uint8).pin_memory()
    part = copy[: len(pinned)]
    copies = rate(lambda: part.copy_(pinned, non_blocking=True), device)
    found["pinned_gb_per_second"] = round(len(pinned) * copies / 1e9, 1)
    return found


def main() -> None:
    """Print what was found, and write it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = described(arguments.device)
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    if found["missing"]:
        raise SystemExit(f"these packages cannot be imported here: {', '.join(found['missing'])}")


if __name__ == "__main__":
    main()
