"""Translation of the same inputs by the same weights, here and in other toolkits: beam 5, from tokens or waveforms.

What is compared are the searches and what they drive: tokens in, tokens out (waveforms in, for speech), in the same
batches of inputs sorted by length. How models and inputs are made stands in ``models.py``; the first run makes them, in
``.benchmarks`` or the folder that DRAGOMAN_BENCHMARKS names (about 2 GB).

DRAGOMAN_BENCHMARK_INPUTS=64 takes 64 inputs only. DRAGOMAN_BENCHMARK_DEVICE=cuda lets every arm compute on a GPU;
memory is then that of the GPU. Ours and transformers stand there in bfloat16 too, as they do on a processor that
multiplies in it: ours by autocast, as `dragoman translate --precision bf16`, transformers as a converted model.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.side_by_side import ROOT, Arm, Benchmark, fairseq_python, multiplies_bf16
from benchmarks.text_training import peak

FOLDER = Path(os.environ.get("DRAGOMAN_BENCHMARKS", ROOT / ".benchmarks")) / "translation"
INPUTS = int(os.environ.get("DRAGOMAN_BENCHMARK_INPUTS", "0"))  # 0: all of them
DEVICE = os.environ.get("DRAGOMAN_BENCHMARK_DEVICE", "cpu")
FIXED = 12
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
NOTES = {
    "text": "6+6 layers, 512/2048, 32,000 symbols, random weights: one checkpoint in fairseq's form, read by `dragoman "
    "import` and written for the others by `dragoman export`; 24 source tokens in the median",
    "speech": "12+6 layers, 256/2048, 8,000 symbols (s2t_transformer_s), random weights: one checkpoint in fairseq's "
    "form; 5 seconds of synthetic sound in the median, features included",
    "padding": "fairseq and transformers let the padding of a batch into the last frames of a recording, so that some "
    "outputs differ from ours, for which padding counts for nothing (docs/from_fairseq.md)",
    "fixed": f"each output has {FIXED} tokens and an end symbol. transformers and CTranslate2 do not count the "
    "probability of an end that the length forces, so that they may rank the last beams otherwise",
    "free": "an output ends when the model says so: one feature of the weights is a clock that raises the end symbol's "
    "logit (benchmarks/translation/models.py). Random weights do not bear int8: its outputs are others, and shorter",
}


def arm(
    name: str,
    module: str,
    kind: str,
    *more: object,
    python: str = sys.executable,
    ours: bool = False,
    precision: str = "fp32",
) -> Arm:
    """Return an arm."""
    command = ["-m", f"benchmarks.translation.{module}", kind, "--folder", str(FOLDER), "--inputs", str(INPUTS)]
    command += ["--device", DEVICE, "--dtype", DTYPES[precision], *map(str, more)]
    return Arm(name=name, command=command, python=python, ours=ours, peak=f"peak {precision}")


def compared(name: str, kind: str, title: str, notes: list[str], *more: object) -> Benchmark:
    """Return a benchmark, and make its models if they are not there."""
    if DEVICE == "cuda":
        import torch  # not above: arms that do without import this module too

        if not torch.cuda.is_available():
            raise SystemExit("DRAGOMAN_BENCHMARK_DEVICE=cuda needs a GPU that torch can use; this machine has none")
    if not (FOLDER / kind / "ours").is_dir():
        subprocess.run(
            [sys.executable, "-m", "benchmarks.translation.models", "--out", str(FOLDER)], check=True, cwd=ROOT
        )
    precisions = ["fp32", "bf16"] if DEVICE == "cuda" or multiplies_bf16() else ["fp32"]
    named = [(precision, "" if precision == "fp32" else f" {precision}") for precision in precisions]
    arms = [arm(f"ours{name}", "ours", kind, *more, ours=True, precision=precision) for precision, name in named]
    absent = {}
    fairseq = fairseq_python()
    if fairseq:
        arms.append(arm("fairseq", "with_fairseq", kind, *more, python=fairseq))
    else:
        absent["fairseq"] = "no environment: make fairseq-env, or FAIRSEQ_ENV"
    arms += [
        arm(f"transformers{name}", "with_transformers", kind, *more, precision=precision) for precision, name in named
    ]
    if kind == "text" and DEVICE == "cuda" and not library("libcublas.so.12"):
        absent["CTranslate2"] = "its wheels need CUDA 12 (libcublas.so.12) on a GPU"
    elif kind == "text" and not (FOLDER / kind / "ctranslate2_float32").is_dir():
        absent["CTranslate2"] = f"it was not installed when {FOLDER} was made: delete that folder once it is"
    elif kind == "text":
        for type_ in ("float32", "int8"):
            arms.append(arm(f"CTranslate2 {type_}", "with_ctranslate2", kind, *more, "--variant", type_))
    for precision in precisions:
        arms.append(replace(peak(precision, DEVICE), name=f"peak {precision}"))
    if INPUTS:
        notes = [*notes, f"{INPUTS} of the inputs, whole batches of all lengths (DRAGOMAN_BENCHMARK_INPUTS={INPUTS})"]
    return Benchmark(name, title, "sentences", arms, notes, absent)


def library(name: str) -> bool:
    """Tell whether the system finds a library."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def text_fixed() -> Benchmark:
    """Translate text, beam 5, outputs of 12 tokens: ours, fairseq, transformers, CTranslate2 in float32 and int8."""
    title = f"Text, beam 5, batches of 64, outputs of {FIXED} tokens"
    return compared("translation_fixed", "text", title, [NOTES["text"], NOTES["fixed"]], "--length", FIXED)


def text_bf16() -> Benchmark:
    """Translate text, beam 5, outputs of 12 tokens, in bf16 and int8, and CTranslate2's float32 beside them."""
    all_of_them = text_fixed()
    kept = ("ours bf16", "transformers bf16", "CTranslate2 float32", "CTranslate2 int8", "peak bf16")
    arms = [arm for arm in all_of_them.arms if arm.name in kept]
    if arms[0].name != "ours bf16":
        raise SystemExit("translation_bf16 needs a processor with AVX-512 or AMX units for bf16, or a GPU")
    return replace(all_of_them, name="translation_bf16", title=f"{all_of_them.title}, bf16 and int8", arms=arms)


def text_free() -> Benchmark:
    """Translate text, beam 5, outputs of any length: the same."""
    title = "Text, beam 5, batches of 64, outputs of the model's own lengths"
    return compared("translation_free", "text", title, [NOTES["text"], NOTES["free"]])


def speech() -> Benchmark:
    """Translate speech, beam 5, from waveforms: ours, fairseq, transformers."""
    title = "Speech, beam 5, batches of 16, from waveforms"
    return compared(
        "translation_speech", "speech", title, [NOTES["speech"], NOTES["free"], NOTES["padding"]], "--batch", 16
    )


BENCHMARKS = {
    "translation_fixed": text_fixed,
    "translation_bf16": text_bf16,
    "translation_free": text_free,
    "translation_speech": speech,
}
