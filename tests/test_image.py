"""The Dockerfile and the examples of compose and systemd: what they name exists, and the server takes their options."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from dragoman.cli.main import app

ROOT = Path(__file__).parent.parent


@pytest.fixture
def check_image(monkeypatch):
    pytest.importorskip("packaging")
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import check_image

    return check_image


@pytest.fixture
def steps(check_image):
    return [*check_image.instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))]


def taken(words):
    """The options that ``dragoman serve`` reads from words, all of which it must know."""
    name, *rest = words
    assert name == "serve"
    return get_command(app).commands[name].make_context(name, rest).params


def by_name(steps, word):
    """The last of the instructions of a name: that of the image itself."""
    return [rest for name, rest in steps if name == word][-1]


def test_the_image_runs_without_root_from_a_base_of_one_release(steps):
    bases = {rest.partition(" AS ")[0] for word, rest in steps if word == "FROM"}
    [base] = bases
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    release = re.fullmatch(r"python:(3\.\d+)-slim-[a-z]+", base)
    assert release and f"Python :: {release[1]}" in project
    assert int(by_name(steps, "USER").partition(":")[0]) > 0
    words = json.loads(by_name(steps, "ENTRYPOINT"))
    options = taken([*words[1:], "talks=/models/talks"])
    assert words[0] == "dragoman" and options["host"] == "0.0.0.0"
    assert options["port"] == int(by_name(steps, "EXPOSE"))
    health = json.loads(by_name(steps, "HEALTHCHECK").partition("CMD ")[2])
    assert f"127.0.0.1:{options['port']}/health" in health[-1]
    assert by_name(steps, "WORKDIR") == "/models"


def test_the_extras_of_the_image_exist(steps):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [extras] = [
        rest.partition("=")[2].split(",") for word, rest in steps if word == "ARG" and rest.startswith("EXTRAS")
    ]
    assert "serve" in extras and {*extras} <= {*project["optional-dependencies"]}


def test_what_is_built_from_is_not_ignored(check_image):
    names = check_image.context((ROOT / ".dockerignore").read_text(encoding="utf-8"))
    assert {"pyproject.toml", "constraints.txt", "README.md", "LICENSE", "dragoman/mt", "mt/bart.py"} <= {*names}
    tops = {name.partition("/")[0] for name in names}
    assert tops.isdisjoint({"tests", "benchmarks", "docs", ".ci", "scripts", "Dockerfile"})


def test_rules_of_dockerignore(check_image, monkeypatch):
    found = "a.txt\nb/c.txt\nb/__pycache__/d.pyc\nb/deep/__pycache__/e.pyc\n"
    monkeypatch.setattr(check_image.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, found))
    assert check_image.context("# all\n*\n!b\n**/__pycache__\n") == ["b/c.txt"]
    assert check_image.context("b\n") == ["a.txt"]


def test_steps_are_carried_out_in_folders(check_image, tmp_path, monkeypatch):
    monkeypatch.setattr(check_image, "linked", lambda stage: None)
    text = """
    FROM base AS first
    # a comment
    ARG WHO=nobody
    ENV PLACE=/opt/it
    WORKDIR /source
    RUN mkdir -p "$PLACE" \\
        && echo "$WHO" > "$PLACE/who"
    FROM base
    COPY --from=first /opt/it /opt/it
    ENV PATH=/opt/it:$PATH
    USER 1:1
    """
    stage = check_image.built(text, tmp_path, download=False)
    assert stage.told == {"USER": "1:1"} and (stage.folder / "opt/it/who").read_text() == "nobody\n"
    assert stage.environment()["PATH"].startswith(f"{tmp_path}/last/opt/it:")
    (tmp_path / "other").mkdir()
    with pytest.raises(SystemExit, match="exit code 3"):
        check_image.built("FROM base\nRUN exit 3", tmp_path / "other", download=True)


def test_compose_starts_the_image(steps):
    services = yaml.safe_load((ROOT / "docs/compose.yaml").read_text(encoding="utf-8"))
    [service] = services["services"].values()
    context = service["build"]
    assert (ROOT / "docs" / context / "Dockerfile").is_file()
    entry = json.loads(by_name(steps, "ENTRYPOINT"))
    options = taken([*entry[1:], *service["command"]])
    [name] = service["secrets"]
    assert options["keys"] == Path("/run/secrets") / name and name in services["secrets"]
    assert options["folders"] == ["talks=/models/talks"] and "./models:/models:ro" in service["volumes"]
    assert service["ports"] == [f"127.0.0.1:8000:{options['port']}"]
    assert int(service["stop_grace_period"].removesuffix("s")) > options["deadline"] + 1
    assert service["ulimits"]["nofile"] > options["readers"] + options["requests"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]


def test_systemd_starts_the_server(tmp_path):
    text = (ROOT / "docs/dragoman-server.service").read_text(encoding="utf-8")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(text)
    service = unit["Service"]
    program, *words = shlex.split(service["ExecStart"])
    options = taken(words)
    assert Path(program).name == "dragoman" and options["folders"] == ["talks=/srv/dragoman/talks"]
    assert options["keys"] == Path("${CREDENTIALS_DIRECTORY}") / service["LoadCredential"].partition(":")[0]
    assert options["host"] == "127.0.0.1" and service["DynamicUser"] == "yes"
    assert int(service["TimeoutStopSec"]) > options["deadline"] + 1
    assert int(service["LimitNOFILE"]) > options["readers"] + options["requests"]
    if verify := shutil.which("systemd-analyze"):
        path = tmp_path / "dragoman-server.service"
        path.write_text(text.replace(program, sys.executable), encoding="utf-8")
        done = subprocess.run([verify, "verify", path], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
