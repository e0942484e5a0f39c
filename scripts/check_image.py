"""Check that the Dockerfile's steps work, without Docker: run them in a folder, start the server, and ask it.

    make image-check
    python scripts/check_image.py --download     downloads all packages, as a build does; from TORCH_INDEX if it is set

Each stage is a folder: WORKDIR and COPY are carried out in it, values of ENV that are absolute paths lie in it, and RUN
is given to a shell. What .dockerignore leaves out is not there. Unless all is to be downloaded, packages that are
installed here count as installed there, but only those that the wheel and the image's extras require.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import Template
from urllib.error import URLError
from urllib.request import Request, urlopen

from check_wheel import ROOT, link, own_environment, required, say

#: Where the server listens in the image.
PORT = "8000"
#: Seconds for the server to be ready.
PATIENCE = 300


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile with their arguments, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^\s*#.*\n", "", text))
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        yield word.upper(), rest.strip()


def context(ignore: str) -> list[str]:
    """Return the files of the checkout that .dockerignore leaves in, but for those that Git ignores."""
    words = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    rules = [line for line in ignore.splitlines() if line and not line.startswith("#")]

    def kept(name: str) -> bool:
        found = True
        parts = [name[:place] for place, letter in enumerate(name) if letter == "/"] + [name]
        for rule in rules:
            pattern = rule.removeprefix("!")
            if any(fnmatch.fnmatch(f"/{part}", f"/{pattern.replace('**/', '*')}") for part in parts):
                found = rule.startswith("!")
        return found

    return [name for name in names if kept(name)]


class Stage:
    """A stage that is being built.

    Args:
        folder: stands for the root of its files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder
        self.values: dict[str, str] = {}
        self.told: dict[str, str] = {}

    def within(self, place: str) -> Path:
        """Return where a path of the image lies."""
        return self.folder / place.lstrip("/") if place.startswith("/") else self.work / place

    def environment(self) -> dict[str, str]:
        """Return the variables of a process of the stage."""
        moved = {name: re.sub(r"(^|:)(?=/(?!/))", rf"\1{self.folder}", value) for name, value in self.values.items()}
        path = os.pathsep.join(filter(None, [moved.pop("PATH", ""), os.environ["PATH"]]))
        return own_environment() | {"PATH": path} | moved

    def define(self, rest: str) -> None:
        """Set variables."""
        for word in shlex.split(rest):
            name, _, value = word.partition("=")
            known = self.values | {"PATH": self.values.get("PATH", "")}
            self.values[name] = Template(value).safe_substitute(known).rstrip(":")

    def run(self, command: list[str]) -> None:
        """Run a command in the working folder; one that fails ends the check."""
        done = subprocess.run(command, cwd=self.work, env=self.environment())
        if done.returncode:
            raise SystemExit(f"{command[-1]}\nexit code {done.returncode}")


def linked(stage: Stage) -> None:
    """Let what is installed here, and is required there, count as installed in the environment that will be made."""
    project = tomllib.loads((stage.work / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for extra in stage.values["EXTRAS"].split(",") for line in project["optional-dependencies"][extra]]
    libraries = stage.folder / "libraries"
    for name in sorted(required([*project["dependencies"], *extras])):
        link(name, libraries)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = stage.within(stage.values["VIRTUAL_ENV"]) / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (packages / "libraries.pth").write_text(f"{libraries}\n", encoding="utf-8")


def built(text: str, folder: Path, *, download: bool) -> Stage:
    """Carry out a Dockerfile; return its last stage.

    Args:
        text: the Dockerfile.
        folder: for the stages.
        download: all packages; else those that are installed here are linked.
    """
    stages: dict[str, Stage] = {}
    stage = Stage(folder)
    for word, rest in instructions(text):
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "last"
            stage = stages[name] = Stage(folder / name)
            stage.folder.mkdir()
        elif word == "ARG":
            name, _, value = rest.partition("=")
            stage.values[name] = os.environ.get(name, value)
        elif word == "ENV":
            stage.define(rest)
        elif word == "WORKDIR":
            stage.work = stage.within(rest)
            stage.work.mkdir(parents=True, exist_ok=True)
        elif word == "COPY" and rest == ". .":
            for name in context((ROOT / ".dockerignore").read_text(encoding="utf-8")):
                (stage.work / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, stage.work / name, follow_symlinks=False)
        elif word == "COPY":
            origin, source, target = shlex.split(rest)
            theirs = stages[origin.removeprefix("--from=")].within(source)
            stage.within(target).parent.mkdir(parents=True, exist_ok=True)
            stage.within(target).symlink_to(theirs)  # the commands of an environment name its place
        elif word == "RUN":
            if not download:
                linked(stage)
            say(rest)
            stage.run(["/bin/sh", "-ec", rest])
        else:
            stage.told[word] = rest
    return stage


def serves(stage: Stage, model: Path) -> None:
    """Start the image's command on another port, ask it for a translation, and run its check of health."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = str(place.getsockname()[1])
    command = [port if word == PORT else word for word in json.loads(stage.told["ENTRYPOINT"])]
    health = json.loads(stage.told["HEALTHCHECK"].partition("CMD ")[2].replace(f":{PORT}", f":{port}"))
    stage.within("/tmp").mkdir()
    stage.run([*command, *json.loads(stage.told["CMD"])])
    server = subprocess.Popen([*command, f"text={model}"], cwd=stage.work, env=stage.environment())
    try:
        body = json.dumps({"q": "one two", "source": "en", "target": "de"}).encode()
        ask = Request(f"http://127.0.0.1:{port}/translate", body, {"Content-Type": "application/json"})
        until = time.monotonic() + PATIENCE
        while True:
            try:
                answer = json.load(urlopen(ask, timeout=PATIENCE))
                break
            except URLError as error:
                if server.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"the server cannot be asked: {error}") from error
                time.sleep(0.2)
        assert answer == {"translatedText": "zwei eins"}, answer
        stage.run(health)
    finally:
        server.terminate()
        code = server.wait()
    assert code == 0, f"after SIGTERM the server ended with exit code {code}"


def main() -> None:
    """Build, start, ask."""
    download = "--download" in sys.argv[1:]
    if not download:  # only what builds the wheel is fetched
        os.environ.setdefault("TORCH_INDEX", "https://pypi.org/simple")
    with tempfile.TemporaryDirectory(prefix="image-check-") as name:
        folder = Path(name).resolve()
        stage = built((ROOT / "Dockerfile").read_text(encoding="utf-8"), folder, download=download)
        say(stage.told["ENTRYPOINT"])
        serves(stage, ROOT / "tests" / "golden" / "model")
        say("done")


if __name__ == "__main__":
    main()
