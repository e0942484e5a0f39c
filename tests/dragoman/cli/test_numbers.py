"""Numbers that are none, or that nobody can mean, in every option of every command that takes a number."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import CliRunner

from dragoman import DataError, UsageError
from dragoman.cli.main import app

PAIR = ["--data_folder", "none", "--source_language", "en", "--target_language", "de"]
#: Built once: a run of ``app`` builds all commands anew.
BUILT: Any = typer.main.get_command(app)
#: What a command needs besides; none of it is there.
NEEDED: dict[str, list[str]] = {
    "prepare": ["tsv", "--root", "none", "--out", "out"], "check": ["none.arrow"], "run": ["own/mt", *PAIR],
    "show": ["own/mt"], "batch-size": ["own/mt", "--device", "cpu", *PAIR], "translate": ["none"],
    "evaluate": ["none", "none.arrow"], "rescore": ["none", "none.arrow"], "recipes": [], "demo": [],
    "score": ["none", "none", "--language", "de"], "diff": ["none", "none"], "seeds": ["own/mt"], "lab": ["none"],
    "results": ["--into", "none"], "subtitle": ["none", "none.wav"], "stream": ["none"], "serve": ["none"],
    "import": ["none", "--out", "out"], "trim": ["none", "--manifests", "none.arrow", "--out", "out"],
    "extend": ["none", "--language", "mic", "--like", "fr", "--text", "none.txt", "--out", "out"],
    "export": ["none", "--out", "out"], "card": ["none"], "push": ["none", "a/b"], "pull": ["a/b", "--out", "out"],
}  # fmt: skip
#: Lengths for which infinity means that there is no limit.
LIMITLESS = {"--maximum-seconds", "--longest-pause", "--speech-margin"}


def numbers() -> list[tuple[str, str, type]]:
    """Return command, option and type of all that take a number."""
    found = []
    for name, command in BUILT.commands.items():
        for option in command.params:
            annotation = option.type_descriptor.annotation
            kinds = {float, int} & {*(typing.get_args(annotation) or [annotation])}
            found += [(name, option.opts[0], kind) for kind in kinds]
    return found


def said(*words: str) -> str:
    done = CliRunner().invoke(BUILT, words)
    assert done.exit_code != 0 and (
        done.exception is None or isinstance(done.exception, SystemExit | UsageError | DataError)
    )
    return done.output if isinstance(done.exception, SystemExit | None) else str(done.exception)


def test_every_command_is_known() -> None:
    assert {*NEEDED} == {*BUILT.commands}
    assert len(numbers()) > 60


@pytest.mark.parametrize(("command", "option", "kind"), numbers())
def test_what_is_no_number_of_an_option_is_refused_by_its_name(
    command: str, option: str, kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything else is looked for."""
    monkeypatch.chdir(tmp_path)
    name = option.removeprefix("--").replace("-", "_")
    wrong = ["-1"] if kind is int else ["nan", *([] if option in LIMITLESS else ["inf", "-inf", "1e400"])]
    for value in wrong:
        assert name in said(command, *NEEDED[command], option, value).replace("-", "_"), (option, value)
    said(command, *NEEDED[command], option, "1" + "0" * (22 if kind is int else 308))
