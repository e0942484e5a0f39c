"""Give commands odd options, texts and sounds; each must succeed, or say in one line and soon what is wrong.

    python -m benchmarks.fuzzing.commands TEXT_MODEL SPEECH_MODEL SECONDS [SEED] [--again SEED]

Each try is a process of its own, with a limit of time and memory. A try fails by a traceback, a crash, a hang, an exit
code other than 0, 1 and 2, an error of several lines, a file half written, by saying nothing at all, and by an output
that cannot be right: a number of lines other than the input's, other lines with another size of batches, a text that
does not score as itself. Failures are printed with their seeds, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer

from benchmarks.fuzzing import inputs
from benchmarks.fuzzing.bounds import bound_memory
from benchmarks.fuzzing.layouts import layouts
from dragoman.cli import main as cli
from dragoman.commands import evaluate, live_output, score, subtitle, translate  # noqa: F401  once, for all tries
from dragoman.preparing.preparation import prepare
from dragoman.shared.sound.speech_activity import speech_detector
from dragoman.shared.systems.system import System

#: Seconds that a try may take, bytes that it may allocate, and bytes of a file that it may write.
LIMIT, MEMORY, FILE = 40, 6 << 30, 1 << 30

NUMBERS = ["nan", "inf", "-inf", "-1", "0", "1", "2", "3", "0.5", "1e308", "-1e308", "1e-300", "9" * 23, "1000000000"]
NUMBERS += ["", "x", "0x10", "١", "1_0", " 1", "True"]
NAMES = [
    "",
    ",",
    "x",
    "en",
    "de",
    "xx",
    "text",
    "json",
    "srt",
    "vtt",
    "tsv",
    "cpu",
    "fp32",
    "bf16",
    "../..",
    "nan",
    "É",
]
NAMES += ["a" * 5000, "\udcff", "[red]", "%s", "en,de", " de", "\u202e"]
#: Values of options that mean something, by the option's name.
MEANT: dict[str, list[str]] = {
    "format": ["text", "json", "srt", "vtt", "tsv"],
    "segmenter": ["pauses", "silero"], "speech_detector": ["levels", "silero", "auto"],
    "precision": ["fp32", "bf16", "fp16"], "engine": ["native", "ctranslate2"], "device": ["cpu", "cpu:1", "cuda"],
    "policy": ["agreement", "alignatt", "hold", "wait-k"],
    "reads": ["speech", "source", "speech,source", "source,source"], "writes": ["translation", "transcript"],
    "text": ["translation", "transcript"],
    "text_metrics": ["transcript:wer", "translation:bleu,chrf", "wer", "translation:"],
    "metrics": ["bleu", "wer,cer", "spbleu", "bleu,bleu", "ter,chrf++", "bleu_lc,bleu_bare,wer_raw,cer_raw", ","],
    "language": ["en", "de", "zh", "th", "fa", "ja", "zh-CN"],
    "source_language": ["en"], "target_language": ["de"],
    "maximum_length_extra": ["1", "5"], "beam": ["1", "2", "4"], "n_best": ["1", "2"], "samples": ["2"],
    "maximum_seconds": ["0.3", "1", "2"], "chunk": ["0.1", "0.3"],
}  # fmt: skip
#: Options that start other programs' work, or read gigabytes: not for tries of a second.
LEFT_OUT = {"help", "comet", "sources"}
PATHS = {"allowed", "forbidden", "ensemble", "lm", "out", "documents", "baseline"}


@dataclass
class Try:
    """A command, what it hears, and how its outputs are judged.

    Attributes:
        arguments: the words after ``dragoman``.
        heard: standard input.
        lines: the number of lines that text and JSON must have.
        same: arguments and standard input of a second command that must print what the first does.
        judge: finds what is wrong in the output of a success; "" for nothing.

    """

    arguments: list[str]
    heard: bytes = b""
    lines: int | None = None
    same: tuple[list[str], bytes] | None = None
    judge: Callable[[str], str] = field(default=lambda _: "")


@dataclass(frozen=True)
class Models:
    """The models, and a manifest for each."""

    text: Path
    speech: Path
    texts: Path
    sounds: Path


@dataclass(frozen=True)
class Outcome:
    """What a command has left."""

    status: int
    out: bytes
    said: str


def prepared(text: Path, speech: Path, folder: Path) -> Models:
    """Write the manifests that models are evaluated on, and import once for all tries what models need."""
    for model in (text, speech):
        System.load(model)
    speech_detector().has_speech(np.zeros(1600, dtype=np.float32))
    made = {}
    for name in ("tsv", "mustc"):
        layout = layouts()[name]
        for place, content in layout.files.items():
            (folder / name / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / place).write_bytes(content)
        made[name] = [
            Path(report.path) for report in prepare(layout.reader(folder / name), folder / f"{name}-m", workers=1)
        ]
    return Models(text, speech, made["tsv"][-1], made["mustc"][-1])


# -- tries ------------------------------------------------------------------------------------------------------------


def options(name: str, folder: Path, models: Models, rng: random.Random, most: int = 3) -> list[str]:
    """Return some options of a command, as typer knows them, with values that mean something or nothing."""
    command: Any = typer.main.get_command(cli.app)
    known = [one for one in command.commands[name].params if one.opts[0][0] == "-" and one.name not in LEFT_OUT]
    found: list[str] = []
    for option in rng.sample(known, rng.choice((0, 0, *range(1, most + 1)))):
        word, meant = rng.choice(option.opts), MEANT.get(option.name, [])
        if option.is_flag:
            found.append(word)
        elif meant and rng.random() < 0.6:
            found += [word, rng.choice(meant)]
        elif option.name in PATHS:
            path = folder / rng.choice(("options.txt", "missing", "out"))
            if path.name == "options.txt":
                path.write_bytes(rng.choice((b"", b"<unk>\n", b"\n", inputs.text(rng))))
            found += [word, str(rng.choice((path, path, models.text, models.speech, "/dev/zero", "")))]
        else:
            found += [word, rng.choice(NUMBERS if isinstance(option.default, int | float) else NAMES)]
    return found


def _texts(folder: Path, rng: random.Random, models: Models) -> Try:
    """Translate a text from a file or standard input; now and then line by line too."""
    content, chosen = inputs.text(rng), options("translate", folder, models, rng)
    file = folder / rng.choice(("a.txt", "a b\n[c].txt", "\udcff", "-", "a.wav"))
    special = inputs.put(file, content, rng, 0.05)
    given = [str(file)] if special or rng.random() < 0.4 else []
    start = ["translate", str(models.text), *given]
    several = {"--n-best", "--samples", "--format"} & {*chosen}
    lines = content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
    heard = b"" if given else content
    same = None
    if not chosen and not special and file.suffix != ".wav":
        other = [[*start, "--batch-size", "1"], ["translate", str(models.text), *([] if given else [str(file)])]]
        same = rng.choice([(other[0], heard), (other[1], content if given else b"")])
    return Try([*start, *chosen], heard, None if special or (several and lines) else lines, same)


def _sounds(folder: Path, rng: random.Random, name: str) -> list[str]:
    """Write some sound files, and return their names, or that of their folder."""
    place = folder / "sounds"
    place.mkdir()
    for number in range(rng.choice((1, 1, 1, 2, 3))):
        ending, content = inputs.sound(rng)
        stem = rng.choice((str(number), str(number), f"{number} \n[x]", f"{number}\udcff", f"-{number}"))
        inputs.put(place / f"{stem}.{ending}", content, rng, 0.1, inputs.SPECIAL)
    if name != "stream" and rng.random() < 0.2:
        return [str(place)]
    return [str(file) for file in sorted(place.iterdir())] or [str(place / "missing.wav")]


def _recordings(folder: Path, rng: random.Random, models: Models, name: str) -> Try:
    files, chosen = _sounds(folder, rng, name), options(name, folder, models, rng)
    if rng.random() < 0.3:
        chosen.append("--keep-silence")
    one_a_file = name == "translate" and not {"--n-best", "--samples", "--format"} & {*chosen}
    return Try(
        [name, str(models.speech), *files, *chosen],
        lines=len(files) if one_a_file and files[0] != str(folder / "sounds") else None,
    )


def _live(folder: Path, rng: random.Random, models: Models) -> Try:
    chosen = options("stream", folder, models, rng)
    if rng.random() < 0.5:
        return Try(["stream", str(models.speech), *chosen], inputs.raw(rng))
    return Try(["stream", str(models.speech), *_sounds(folder, rng, "stream")[:1], *chosen])


def _scores(folder: Path, rng: random.Random, models: Models) -> Try:
    """Score a text against another, or against itself, as one talk or several."""
    chosen = options("score", folder, models, rng)
    if rng.random() < 0.4:
        files = [folder / f"{number}.txt" for number in range(rng.choice((2, 2, 3)))]
        own = inputs.text(rng)
        for file in files:
            inputs.put(file, rng.choice((own, own, inputs.text(rng))), rng, 0.03)
        language = [] if "--language" in chosen else ["--language", rng.choice(MEANT["language"])]
        return Try(["score", *map(str, files), *language, *chosen])
    lines = [
        inputs.words(rng, rng.randrange(4, 12)) + rng.choice(["", *inputs.PIECES[:9]])
        for _ in range(rng.randrange(1, 9))
    ]
    reference, talk = folder / "reference.txt", folder / "talk.txt"
    reference.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    talk.write_text(rng.choice((" ", "\n", "  ")).join(lines) + "\n", encoding="utf-8")
    language = rng.choice(MEANT["language"])
    metrics = (
        "bleu,chrf,ter,cer" if language in ("zh", "zh-CN", "th", "ja") else "bleu,chrf,ter,wer,cer,wer_raw,bleu_lc"
    )
    told = ["--language", language, "--metrics", metrics]
    cut = rng.random() < 0.5
    given = [str(talk if cut else reference), str(reference), *told, *["--resegment"] * cut]
    return Try(["score", *given], judge=_perfect)


def _perfect(out: str) -> str:
    values = [line.split("\t")[1:3] for line in out.splitlines()]
    wrong = [f"{name} {value}" for name, value in values if value not in ("100.00", "0.00")]
    return f"a text scores as itself with {', '.join(wrong)}" if wrong or not values else ""


def _evaluation(folder: Path, rng: random.Random, models: Models) -> Try:
    model, manifest = rng.choice(
        ((models.text, models.texts), (models.speech, models.sounds), (models.text, models.sounds))
    )
    copied = shutil.copy(manifest, folder / "test.arrow")
    if rng.random() < 0.2:
        content = manifest.read_bytes()
        place = rng.randrange(len(content))
        Path(copied).write_bytes(content[:place] + rng.choice((b"", inputs.text(rng) + content[place + 9 :])))
    return Try(["evaluate", str(model), str(copied), *options("evaluate", folder, models, rng)])


def made(seed: int, folder: Path, models: Models) -> Try:
    """Return the try of a seed, whose files are in the folder."""
    rng = random.Random(seed)
    kind = rng.random()
    if kind < 0.3:
        return _texts(folder, rng, models)
    if kind < 0.45:
        return _recordings(folder, rng, models, "translate")
    if kind < 0.55:
        return _recordings(folder, rng, models, "subtitle")
    if kind < 0.75:
        return _live(folder, rng, models)
    return _scores(folder, rng, models) if kind < 0.95 else _evaluation(folder, rng, models)


# -- processes --------------------------------------------------------------------------------------------------------


def outcome(arguments: list[str], heard: bytes, folder: Path) -> Outcome | str:
    """Run the command in a process of its own, or say that it did not end."""
    (folder / "stdin").write_bytes(heard)
    child = os.fork()
    if not child:
        _child(arguments, folder)
    end = time.monotonic() + LIMIT
    while (waited := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.005)
    try:
        os.killpg(child, signal.SIGKILL)  # and what it has started
    except ProcessLookupError:
        pass
    said = (folder / "stderr").read_text(encoding="utf-8", errors="backslashreplace")
    if waited == (0, 0):
        os.waitpid(child, 0)
        return f"no end after {LIMIT} s: {said[-2000:]}"
    return Outcome(os.waitstatus_to_exitcode(waited[1]), (folder / "stdout").read_bytes(), said)


def _child(arguments: list[str], folder: Path) -> None:
    """Be the command, as a shell would start it."""
    status = 1
    try:
        os.setsid()
        os.chdir(folder)
        for number, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_WRONLY), (2, "stderr", os.O_WRONLY)):
            os.dup2(os.open(folder / name, flags | os.O_CREAT | os.O_TRUNC * bool(number), 0o600), number)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
            for number, mode, errors in ((0, "r", "strict"), (1, "w", "strict"), (2, "w", "backslashreplace"))
        )
        sys.argv = ["dragoman", *arguments]
        bound_memory(MEMORY)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        cli.main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def wrong(found: Outcome | str, tried: Try, folder: Path) -> str:
    """Return what is wrong with an outcome, "" for nothing."""
    if isinstance(found, str):
        return found
    if found.status not in (0, 1, 2):
        return f"ended with {found.status}: {found.said[-2000:]}"
    lines = found.said.splitlines()
    lines = [line for line in lines if not re.match(r"\d\d:\d\d:\d\d ", line)]  # the log
    box = found.status == 2 and any("Usage:" in line for line in lines)  # which click draws
    if "Traceback" in found.said or not (box or all(line.startswith("dragoman: ") for line in lines)):
        return f"is not one line: {found.said[-3000:]}"
    if found.status and not box and not any(line.startswith("dragoman: error: ") for line in lines):
        return f"ended with {found.status} without a word: {found.said[-2000:]}"
    if left := [str(path) for path in folder.rglob(".*.tmp")]:
        return f"left behind {', '.join(left)}"
    if found.status == 0:
        out = found.out.decode("utf-8", "surrogateescape")
        if not found.out and not found.said and tried.lines != 0:
            return "said nothing at all"
        if tried.lines is not None and out.count("\n") != tried.lines:
            return f"{out.count(chr(10))} lines of output for {tried.lines} of input: {found.said[-500:]}"
        return tried.judge(out)
    return ""


def attempt(models: Models, seed: int, *, show: bool = False) -> str:
    """Do the try of a seed; return the command and what went wrong, "" for nothing."""
    folder = Path(tempfile.mkdtemp())
    try:
        tried = made(seed, folder, models)
        command = shlex.join(tried.arguments).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        found = outcome(tried.arguments, tried.heard, folder)
        if show:
            print(command, found, sep="\n")
        problem = wrong(found, tried, folder)
        if not problem and tried.same and isinstance(found, Outcome):
            other = outcome(*tried.same, folder)
            if not isinstance(other, Outcome) or (other.status, other.out) != (found.status, found.out):
                problem = f"{shlex.join(tried.same[0])} gives something else: {found} {other}"
        return f"{command[:1500]}\n    {problem}" if problem else ""
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Run tries until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text_model", type=Path)
    parser.add_argument("speech_model", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--again", type=int, help="the seed of one try")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        models = prepared(given.text_model.absolute(), given.speech_model.absolute(), Path(place))
        if given.again is not None:
            print(attempt(models, given.again, show=True) or "nothing")
            return 0
        begun, seed, ends = time.monotonic(), given.seed, Counter[bool]()
        while time.monotonic() < begun + given.seconds:
            if problem := attempt(models, seed):
                print(f"--again {seed}: {problem}", flush=True)
            ends[bool(problem)] += 1
            seed += 1
    seconds = time.monotonic() - begun
    print(f"{ends.total()} tries in {seconds:.0f} s from seed {given.seed} on, {ends[True]} of them wrong")
    return ends[True] > 0


if __name__ == "__main__":
    sys.exit(main())
