"""The corpora that are mutated are right before, and a try tells what goes wrong."""

import mmap
import sys
import time

import pytest

from benchmarks.fuzzing import commands, readers
from benchmarks.fuzzing.layouts import layouts
from dragoman.cli import main as cli
from dragoman.commands.inspection import check_corpus
from dragoman.preparing.preparation import prepare
from dragoman.shared.errors import DataError
from tests.shared.conftest import speech_model  # noqa: F401  a fixture
from tests.small import GOLDEN, slow_but

LAYOUTS = layouts()


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_is_right_as_it_is(tmp_path, name):
    readers._write(tmp_path / "in", LAYOUTS[name].files, {})
    corpus = LAYOUTS[name].reader(tmp_path / "in")
    assert corpus.name == name and all(report.rows for report in prepare(corpus, tmp_path / "out", workers=1))
    assert check_corpus(corpus, workers=1).findings.errors == 0


def test_a_try_tells_of_tracebacks_and_passes_over_errors():
    def fail(error):
        return {"tsv": LAYOUTS["tsv"]._replace(reader=lambda root: (_ for _ in ()).throw(error))}

    assert "KeyError: 'x'" in readers.attempt(fail(KeyError("x")), 1)
    assert readers.attempt(fail(DataError("x")), 1) == ""


@pytest.mark.parametrize("seed", range(100, 112))
def test_a_few_tries(seed):
    assert readers.attempt(LAYOUTS, seed) == ""


def test_a_large_process_leaves_its_tries_as_much_memory():
    with mmap.mmap(-1, 2 * readers.MEMORY, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ):
        assert readers.attempt(LAYOUTS, 100) == ""


# -- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(speech_model, tmp_path_factory):  # noqa: F811
    return commands.prepared(GOLDEN, speech_model, tmp_path_factory.mktemp("corpora"))


@pytest.mark.parametrize("seed", slow_but(range(200, 204), range(200, 212)))
def test_a_few_commands(models, seed):
    assert commands.attempt(models, seed) == ""


def raises_key_error():
    raise KeyError("planted")


def complains(*lines):
    print(*lines, sep="\n", file=sys.stderr)
    sys.exit(1)


@pytest.mark.parametrize(
    ("main", "lines", "found"),
    [
        (raises_key_error, None, "KeyError: 'planted'"),
        (lambda: time.sleep(60), None, "no end after 1 s"),
        (lambda: sys.exit(3), None, "ended with 3"),
        (lambda: sys.exit(1), None, "without a word"),
        (lambda: complains("dragoman: error: one", "and another"), None, "is not one line: dragoman: error: one\nand"),
        (lambda: complains("dragoman: error: one"), None, ""),
        (lambda: None, None, "said nothing"),
        (lambda: None, 0, ""),
        (lambda: print("one"), 2, "1 lines of output for 2 of input"),
        (lambda: print("one"), 1, ""),
        (lambda: open(".text.1.tmp", "w").close() or print(), None, "left behind"),
    ],
)
def test_what_is_planted_is_found(monkeypatch, tmp_path, main, lines, found):
    monkeypatch.setattr(cli, "main", main)
    monkeypatch.setattr(commands, "LIMIT", 1 if "no end" in found else 60)
    said = commands.wrong(commands.outcome([], b"", tmp_path), commands.Try([], lines=lines), tmp_path)
    assert found in said and bool(found) == bool(said)


def test_a_difference_is_found_and_shown_with_the_command(monkeypatch, models):
    monkeypatch.setattr(commands, "made", lambda *_: commands.Try(["a"], lines=1, same=(["b"], b"")))
    monkeypatch.setattr(cli, "main", lambda: print(sys.argv[1]))
    assert commands.attempt(models, 1).startswith("a\n    b gives something else: ")
    monkeypatch.setattr(cli, "main", lambda: print("same"))
    assert commands.attempt(models, 1) == ""


def test_a_text_scores_as_itself():
    assert commands._perfect("a.txt\tbleu\t100.00\na.txt\twer\t0.00\n") == ""
    assert "bleu 99.99" in commands._perfect("a.txt\tbleu\t99.99\na.txt\twer\t0.00\n")
