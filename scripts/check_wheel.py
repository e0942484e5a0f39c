"""Check that what is published works: build the wheel, install it alone, run its command without the checkout.

    make wheel-check

The source archive is built, and the wheel from it. Twine reads the metadata of both. The wheel is installed into an
empty environment, and beside it there are links to the libraries that it requires, and that those require, without
extras: they are the copies of this interpreter, which are not downloaded again. So what pyproject.toml does not name is
missing, as it is for a user, however much is installed here. Nothing here knows the names of the packages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from itertools import permutations
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
#: Names and adjectives of a corpus of which every sentence can be told from the others.
NOUNS = {"cat": "Katze", "dog": "Hund", "house": "Haus", "train": "Zug", "river": "Fluss"}
QUALITIES = {"red": "rot", "big": "groß", "old": "alt", "new": "neu"}
#: What runs inside the environment: every module of the wheel is imported from there, and none from elsewhere. A module
#: may lack the library of an extra and nothing else.
INSIDE = """
import re
import sys
from importlib import import_module
from importlib.metadata import files, requires
from pathlib import Path

checkout, prefix = Path(sys.argv[1]), Path(sys.prefix).resolve()
names = []
for file in files("dragoman"):
    if file.suffix == ".py":
        parts = file.with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
lines = [line.lower().replace("-", "_") for line in requires("dragoman") if "extra ==" in line]
extras = {re.match(r"\\w+", line)[0] for line in lines}
for name in names:
    try:
        place = Path(import_module(name).__file__).resolve()
    except ModuleNotFoundError as error:
        library = error.name.partition(".")[0]
        assert library in extras, f"{name} needs {library}, and pyproject.toml does not require what brings it"
        print(f"{name} needs the extra with {library}")
        continue
    assert prefix in place.parents, f"{name} was imported from {place}, not from the wheel"
on_path = [entry for entry in map(Path, sys.path) if entry.resolve() == checkout]
assert not on_path, f"the checkout is on the path: {on_path}"
for name, module in list(sys.modules.items()):
    place = Path(getattr(module, "__file__", None) or sys.executable).absolute()
    inside = place.parts[len(checkout.parts) :] if checkout in place.parents else ()
    assert not inside or "site-packages" in inside, f"{name} was imported from the checkout: {place}"
print(f"{len(names)} modules of the wheel can be imported")
"""
#: What a user's type checker says of the calls on the left.
TYPES = {
    "dragoman.load('model')": "System",
    "dragoman.load('model').translate('text', beam=3)": "str",
    "dragoman.load('model').translate(['text'], batch_size=4, target_language='de')": "list[str]",
    "dragoman.load('model').hypotheses(['text'], beam=3, n_best=2)": "list[list[Hypothesis]]",
    "dragoman.run('own/mt')": "Path",
}


def main() -> None:
    """Build, check, install, run; the first step that fails ends with its output."""
    with tempfile.TemporaryDirectory(prefix="wheel-check-") as name:
        folder = Path(name).resolve()
        say("build: the source archive, and the wheel from it")
        call(sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT)
        say("twine check")
        call(sys.executable, "-m", "twine", "check", "--strict", *sorted((folder / "dist").iterdir()))
        say("install the wheel alone")
        (wheel,) = (folder / "dist").glob("*.whl")
        commands = installed(wheel, folder / "environment")
        say("dragoman --version, recipes")
        work = folder / "work"
        work.mkdir()
        version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
        printed = call(commands / "dragoman", "--version", folder=work)
        assert printed.split() == ["dragoman", version], printed
        recipes = call(commands / "dragoman", "recipes", folder=work)
        assert "own/mt_small" in recipes, recipes
        checker = start_type_checker(commands / "python", work / "user.py")  # beside what follows: it takes as long
        say("import all modules")
        print(call(commands / "python", "-c", INSIDE, ROOT, folder=work), end="")
        say("two updates of own/mt_small, and a translation")
        write_corpus(work / "data")
        languages = ["--source_language", "en", "--target_language", "de"]
        call(commands / "dragoman", "run", "own/mt_small", "--data_folder", "data", *languages, "--debug", folder=work)
        (model,) = work.glob("results/**/average/model")
        (work / "input.txt").write_text("The cat is red.\nThe dog is old.\n", encoding="utf-8")
        output = call(commands / "dragoman", "translate", model, "input.txt", "--beam", "1", folder=work)
        assert len(output.splitlines()) == 2, output
        say("types")
        check_types(checker)
        say("done")


def installed(wheel: Path, environment: Path) -> Path:
    """Install a wheel into a new environment; return the folder of its commands."""
    call(sys.executable, "-m", "venv", "--without-pip", environment)
    commands = environment / "bin"
    call(sys.executable, "-m", "pip", "--python", commands / "python", "install", "--quiet", "--no-deps", wheel)
    packages = call(commands / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (metadata,) = Path(packages).glob("dragoman-*.dist-info/METADATA")
    lines = [line for line in metadata.read_text(encoding="utf-8").splitlines() if line.startswith("Requires-Dist: ")]
    libraries = environment / "libraries"
    for name in sorted(required([line.partition(": ")[2] for line in lines])):
        link(name, libraries)
    Path(packages, "libraries.pth").write_text(f"{libraries}\n", encoding="utf-8")
    return commands


def required(lines: Iterable[str]) -> set[str]:
    """Return the names of what requirements ask for on this machine, and of what that requires in its turn.

    Raises:
        SystemExit: naming what is not installed here.

    """
    seen: set[tuple[str, str]] = set()
    waiting = [(line, "") for line in lines]
    while waiting:
        line, extra = waiting.pop()
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        for inner in ("", *requirement.extras):
            if (requirement.name, inner) not in seen:
                seen.add((requirement.name, inner))
                try:
                    needs = distribution(requirement.name).requires or []
                except PackageNotFoundError as error:
                    raise SystemExit(f"{requirement.name} is required, but not installed here") from error
                waiting += [(need, inner) for need in needs]
    return {name for name, _ in seen}


def link(name: str, folder: Path) -> None:
    """Link the packages, modules and metadata of a distribution that is installed here into a folder."""
    source = distribution(name)
    pending = {Path(file.parts[0]) for file in source.files or [] if file.parts[0] not in ("..", "__pycache__")}
    files = {Path(*file.parts[:length]) for file in source.files or [] for length in range(1, len(file.parts) + 1)}
    while pending:
        part = pending.pop()
        place = Path(str(source.locate_file(part)))
        # A folder without __init__.py may hold packages of other distributions: google, nvidia.
        if place.is_dir() and "." not in part.name and not (place / "__init__.py").exists():
            pending |= {inner for inner in files if inner.parent == part}
        elif place.exists() and not (folder / part).exists():
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            (folder / part).symlink_to(place)


def start_type_checker(python: Path, program: Path) -> subprocess.Popen[str]:
    """Start mypy on a program that uses the package that an environment holds."""
    lines = ["import dragoman", *(f"reveal_type({call})" for call in TYPES)]
    program.write_text("\n".join([*lines, ""]), encoding="utf-8")
    words = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        python,
        "--cache-dir",
        os.devnull,
        program,
    ]
    return subprocess.Popen(
        [str(word) for word in words],
        cwd=program.parent,
        env=own_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def check_types(checker: subprocess.Popen[str]) -> None:
    """Compare the types that were revealed, without the modules that they come from, with :data:`TYPES`."""
    output, _ = checker.communicate()
    revealed = [re.sub(r"[\w.]+\.(?=\w)", "", found) for found in re.findall(r'Revealed type is "(.*)"', output)]
    assert checker.returncode == 0 and revealed == [*TYPES.values()], output
    print(f"{len(revealed)} types reach the user")


def write_corpus(folder: Path) -> None:
    """Write ``train.tsv``, ``dev.tsv`` and ``test.tsv`` with a few dozen sentence pairs."""
    pairs = [
        f"The {noun} is {one}, not {other}.\t{NOUNS[noun]} ist {QUALITIES[one]}, nicht {QUALITIES[other]}."
        for one, other in permutations(QUALITIES, 2)
        for noun in NOUNS
    ]
    folder.mkdir()
    for split, lines in (("train", pairs[:-15]), ("dev", pairs[-15:-8]), ("test", pairs[-8:])):
        (folder / f"{split}.tsv").write_text("\n".join(["source_text\ttarget_text", *lines, ""]), encoding="utf-8")


def call(*given: str | Path, folder: Path | None = None) -> str:
    """Run a command without Python's variables of this process; return what it prints.

    Raises:
        SystemExit: with the command and its output, if it fails.

    """
    words = [str(word) for word in given]
    done = subprocess.run(words, cwd=folder, env=own_environment(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)[:500]}\n{done.stdout}{done.stderr}exit code {done.returncode}")
    return done.stdout


def own_environment() -> dict[str, str]:
    """Return the variables of this process, but for those that tell Python where to look; one thread each."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"OMP_NUM_THREADS": "1"}


def say(step: str) -> None:
    """Print the beginning of a step with the seconds since the start."""
    print(f"{time.monotonic() - START:4.0f} s  {step}", flush=True)


START = time.monotonic()

if __name__ == "__main__":
    main()
