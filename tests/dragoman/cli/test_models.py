"""The commands import, export and trim: the next step that they print, and the folders that they replace."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from dragoman import System, UsageError
from dragoman.cli.main import app
from dragoman.exchange import exporting
from dragoman.runs.task import task_of
from tests.dragoman.exchange.huggingface.test_hf_export import system_of, tokenizer  # noqa: F401 (a fixture)

GOLDEN = Path(__file__).parents[2] / "golden" / "model"


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("codes", [(["en"], ["de"]), (["en", "de"], ["de", "en"])])
def test_import_ends_with_a_command_that_works(
    codes: tuple[list[str], list[str]], tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    system = system_of(tokenizer)
    system = System(**system.arguments | {"source_languages": codes[0], "target_languages": codes[1]})
    system.save(tmp_path / "ours")
    run("export", tmp_path / "ours", "--format", "huggingface", "--out", tmp_path / "theirs")
    place = tmp_path / "a place"
    last = run("import", tmp_path / "theirs", "--out", place).splitlines()[-1]
    beginning, command = last.split("; to use it: ")
    assert beginning == f"the model is in {place}"
    monkeypatch.chdir(tmp_path)
    Path("news.txt").write_text("the low tower\n")
    words = shlex.split(command)
    assert words[0] == "dragoman" and run(*words[1:]).count("\n") == 1


def test_a_recogniser_of_several_languages_is_told_one() -> None:
    system = System.load(GOLDEN)
    field = type(system.output)(column="source_text", tokenizer=system.output.tokenizer, prefix=[])
    changes = {"output": field, "output_name": "transcript", "source_languages": ["en", "de"]}
    with torch.device("meta"):
        heard = System(**system.arguments | changes | {"target_languages": ["en", "de"], "other_outputs": {}})
    command = task_of(heard).command
    assert "--from en" in command and "--to" not in command


def written(place: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in place.rglob("*") if file.is_file()}


@pytest.mark.parametrize("command", ["import", "export", "trim", "pull"])
def test_what_is_there_is_replaced_if_that_is_asked_for(
    command: str, tokenizer, tmp_path: Path  # noqa: F811
) -> None:  # fmt: skip
    system_of(tokenizer).save(tmp_path / "ours")
    theirs, out = tmp_path / "theirs", tmp_path / "out"
    run("export", tmp_path / "ours", "--format", "huggingface", "--out", theirs)
    words = {
        "import": ["import", theirs],
        "export": ["export", tmp_path / "ours", "--format", "huggingface"],
        "trim": ["trim", tmp_path / "ours", "--manifests", tmp_path / "none.arrow"],
        "pull": ["pull", "nobody/nothing"],
    }[command]
    shutil.copytree(GOLDEN if command == "import" else theirs, out)
    before = written(out)
    with pytest.raises(UsageError, match="--out .*out: something is there: name another place; or --overwrite"):
        run(*words, "--out", out)
    assert written(out) == before
    if command in ("import", "export"):
        (out / "of.before").touch()
        run(*words, "--out", out, "--overwrite")
        assert "of.before" not in written(out)
        (tmp_path / "empty").mkdir()
        run(*words, "--out", tmp_path / "empty")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list:
    """What the functions behind the commands are called with; each returns its name."""
    calls: list = []
    places = {
        "dragoman.exchange.trimming.trim", "dragoman.exchange.card.write_card",
        "dragoman.exchange.huggingface.hub.push", "dragoman.exchange.huggingface.hub.pull",
    }  # fmt: skip
    for place in places:
        monkeypatch.setattr(place, lambda *given, _name=place, **how: calls.append((given, how)) or _name)
    return calls


def test_commands_hand_their_options_on(asked: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    done = run("trim", "model", "--manifests", "a.arrow", "--manifests", "b.arrow", "--out", out)
    assert done == f"{out}: dragoman.exchange.trimming.trim\n"
    [(given, how)] = asked
    assert given[0] == Path("model") and given[2] == out and [str(path) for path in given[1]] == ["a.arrow", "b.arrow"]
    assert run("card", "model") == "dragoman.exchange.card.write_card\n"
    assert asked[-1] == ((Path("model"),), {"name": None, "license": None, "results": None})
    run("card", "model", "--name", "a/b", "--license", "mit", "--results", "r")
    assert asked[-1] == ((Path("model"),), {"name": "a/b", "license": "mit", "results": Path("r")})
    assert run("push", "model", "a/b") == "dragoman.exchange.huggingface.hub.push\n"
    assert asked[-1] == ((Path("model"), "a/b"), {"private": False, "message": None})
    run("push", "model", "a/b", "--private", "--message", "hello")
    assert asked[-1] == ((Path("model"), "a/b"), {"private": True, "message": "hello"})
    for own, further in ((["config.json"], ""), ([], f"; to use it: dragoman import {out} --out MODEL")):
        monkeypatch.setattr("dragoman.exchange.huggingface.hub.own_files", lambda folder, own=own: own)
        assert run("pull", "a/b", "--out", out) == f"{out}: a/b at dragoman.exchange.huggingface.hub.pull{further}\n"
    assert asked[-1] == (("a/b", out), {"revision": None})
    run("pull", "a/b", "--out", out, "--revision", "v1")
    assert asked[-1] == (("a/b", out), {"revision": "v1"})


def test_exports_have_a_format_and_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list = []
    monkeypatch.setitem(exporting.FORMATS, "ctranslate2", lambda *given, **how: calls.append((given, how)))
    with pytest.raises(UsageError) as error:
        run("export", "model", "--out", tmp_path / "out", "--format", "onnx")
    assert str(error.value) == "format must be one of ctranslate2, huggingface, peft, not 'onnx'"
    run("export", "model", "--out", tmp_path / "out")
    [(given, how)] = calls
    assert given == (Path("model"), tmp_path / "out")
    assert (how["quantization"], how["compare"]) == ("float32", [])
