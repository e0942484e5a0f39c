"""Check that what is published works: build the wheel, install it alone, run its command without the checkout.

    make wheel-check

The source archive is built, and the wheel from it. Twine reads the metadata of both. The wheel is installed into an
empty environment that finds the libraries of this interpreter after its own: those are not downloaded again. A checkout
that is installed beside them as editable stays out of sight, since Python reads the ``.pth`` files of an environment's
own folder only, and not of the folders that those name. Nothing here knows the names of the packages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from itertools import permutations
from pathlib import Path

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
extras = {re.split(r"[^\\w-]", line)[0] for line in requires("dragoman") if "extra ==" in line}
for name in names:
    try:
        place = Path(import_module(name).__file__).resolve()
    except ModuleNotFoundError as error:
        assert error.name in extras, f"{name} needs {error.name}, which no extra names"
        print(f"{name} needs the extra with {error.name}")
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
    own = call(commands / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    places = dict.fromkeys(place for place in sys.path if Path(place).name in ("site-packages", "dist-packages"))
    Path(own, "libraries_of_others.pth").write_text("\n".join([*places, ""]), encoding="utf-8")
    return commands


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
