"""What a command says of its options, a Python call says of its arguments."""

import pytest

from dragoman.shared.errors import DataError, TooLongError, UsageError
from dragoman.wording import in_python, speaks_python

MESSAGES = [
    ("command line: --updtes: no such key", "argument updtes: no such key"),
    ("a.yaml:3: w: 'x', written at command line: --width", "a.yaml:3: w: 'x', written at argument width"),
    ("do it with dragoman run own/mt --width 4 --restart asr.fit", 'do it with restart=["asr.fit"]'),
    ("dragoman run own/mt --width 4 --run 2; or dragoman run x --restart fit", 'run="2"; or restart=["fit"]'),
    ("use last 5, or --restart fit", 'use last 5, or restart=["fit"]'),
    ("give the old values or another --output_folder; or", "give the old values or another output_folder; or"),
    ("only a (--phases.test null leaves the phase out)", 'only a (**{"phases.test": None} leaves the phase out)'),
    ("train.tsv alone: --phases.fit null, or --workers 3.", 'train.tsv alone: **{"phases.fit": None}, or workers=3.'),
    ("name it with --source-languages", "name it with source_languages"),
    ("--later-version true leaves it out", "later_version=True leaves it out"),
    ("--learning_rate=1e-4 or --width -2", "learning_rate=1e-4 or width=-2"),
    ("; --allow NAME goes on without", "; allow=NAME goes on without"),
    ("--average 'last 1' or --languages [de, en]", "average='last 1' or languages=[de, en]"),
    ("--keep-silence translates it", "keep_silence translates it"),
    ("stopped; the same command goes on from there", "stopped; the same call goes on from there"),
    ("a--b, -- and ---- are no options, nor is --3", "a--b, -- and ---- are no options, nor is --3"),
    ("data/a-b.tsv: line 3: x", "data/a-b.tsv: line 3: x"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "python"), MESSAGES)
def test_options_become_arguments(command, python):
    assert in_python(command) == python


def test_an_error_keeps_its_kind_and_its_cause():
    class Told(DataError):
        pass

    @speaks_python
    def fail(kind, *, number=0):
        """Say what it does."""
        if kind is None:
            return number
        try:
            raise KeyError("k")
        except KeyError as error:
            raise kind("give --width 3", number) from error

    assert fail(None, number=3) == 3 and fail.__doc__ == "Say what it does."
    for kind in (DataError, UsageError, TooLongError, Told):
        with pytest.raises(kind) as caught:
            fail(kind, number=4)
        assert type(caught.value) is kind and caught.value.args == ("give width=3", 4)
        assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(RuntimeError, match="--width"):
        fail(RuntimeError)
