"""The command in this process; and the model and the sound of the tests of shared/."""

import io
import sys

import pytest

from dragoman.cli.main import main
from tests.shared.conftest import speech_model, write_sound  # noqa: F401


@pytest.fixture
def dragoman(monkeypatch, capfd):
    """Run the command in this process; return exit code, output and messages."""

    def run(*arguments, text="", data=None):
        monkeypatch.setattr(sys, "argv", ["dragoman", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode() if data is None else data)))
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, *capfd.readouterr()

    return run
