r"""Tables as Python's csv writes them are read as what was written; what was written in two ways is refused."""

import csv
import io
import random

import pytest

from dragoman.shared.errors import DataError
from dragoman.st.corpora.fairseq_s2t import FairseqS2T
from dragoman.st.corpora.tsv import Tsv

TEXTS = ['He said "hello" to me.', '"No."', "plain", '"', 'a "b', 'ends in "quote"', "C:\\path", "it's", "Ende.", '""']
WRITERS = {
    "quoted": {"quoting": csv.QUOTE_MINIMAL},
    "all quoted": {"quoting": csv.QUOTE_ALL},
    "escaped": {"quoting": csv.QUOTE_NONE, "escapechar": "\\"},
}


def written(texts, columns=("id", "target_text"), **writer):
    file = io.StringIO()
    rows = csv.writer(file, delimiter="\t", lineterminator="\n", **writer)
    rows.writerows([columns, *((f"u{number}", text) for number, text in enumerate(texts))])
    return file.getvalue()


def own(folder, text):
    (folder / "train.tsv").write_text(text, encoding="utf-8")
    return [row["target_text"] for row in Tsv(root=folder, target_language="de").rows("train")]


def fairseq(folder, text):
    (folder / "a.wav").touch()
    lines = text.replace("target_text", "tgt_text").splitlines()
    quote = '"' if lines[0].startswith('"') else ""
    cells = [f"{quote}audio{quote}", *[f"{quote}a.wav{quote}"] * (len(lines) - 1)]
    (folder / "train.tsv").write_text("".join(f"{line}\t{cell}\n" for line, cell in zip(lines, cells, strict=True)))
    reader = FairseqS2T(root=folder, source_language="de", target_language="en")
    return [row["target_text"] for row in reader.rows("train")]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("way", ["quoted", "all quoted"])
@pytest.mark.parametrize("read", [own, fairseq])
def test_quotes_of_csv_are_undone(tmp_path, read, way, seed):
    texts = random.Random(seed).sample(TEXTS, len(TEXTS))
    assert read(tmp_path, written(texts, **WRITERS[way])) == texts


@pytest.mark.parametrize("seed", range(5))
def test_escapes_of_fairseq_are_undone(tmp_path, seed):
    texts = random.Random(seed).sample(TEXTS, len(TEXTS))
    assert fairseq(tmp_path, written(texts, **WRITERS["escaped"])) == texts


def test_older_versions_of_csv_wrote_a_backslash_as_it_stands(tmp_path):
    lines = ["id\ttgt_text", 'u0\tHe said \\"hello\\".', "u1\ta\\b path", "u2\t\\\\server", ""]
    assert fairseq(tmp_path, "\n".join(lines)) == ['He said "hello".', "a\\b path", "\\\\server"]


def test_a_table_without_escapes_is_read_as_it_stands(tmp_path):
    texts = ["He said \\hello.", 'a "quote"', "C:\\\\x"]
    lines = ["id\ttgt_text", *(f"u{n}\t{text}" for n, text in enumerate(texts)), ""]
    assert fairseq(tmp_path, "\n".join(lines)) == texts


def test_own_tables_keep_quotes_and_backslashes(tmp_path, caplog):
    texts = ['"Hi," he\\she said.', 'He said \\"no\\".', '"No."', "C:\\\\x"]
    table = "\n".join(["id\ttarget_text", *(f"u{number}\t{text}" for number, text in enumerate(texts)), ""])
    assert own(tmp_path, table) == texts
    assert "train.tsv, line 4: '\"No.\"' stands in quotes, which are taken for a part of the text" in caplog.text


@pytest.mark.parametrize("line", ['u9\ta "b" c', 'u9\t"open', 'u9\t"No." he said'])
def test_a_table_of_two_writers_is_refused(tmp_path, line):
    with pytest.raises(DataError, match=r"train\.tsv, line 3: .* and line 2 quotes cells as pandas does"):
        own(tmp_path, f'id\ttarget_text\nu0\t"He said ""no""."\n{line}\n')


def test_escaped_and_bare_quotes_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"train\.tsv, line 3: a quote without a backslash, and line 2 has one with"):
        fairseq(tmp_path, 'id\ttgt_text\nu0\tHe said \\"no\\".\nu1\tShe said "yes".\n')
