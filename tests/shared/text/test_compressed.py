"""Compressed files hold what their writers put in; two files of one name, and what is not read, are refused."""

import bz2
import gzip
import lzma
import os

import pytest

from dragoman.mt.corpora.iwslt import IWSLT
from dragoman.mt.corpora.monolingual import Monolingual
from dragoman.mt.corpora.moses import Moses
from dragoman.mt.corpora.wmt import WMT
from dragoman.preparing.preparation import prepare
from dragoman.shared.errors import DataError
from dragoman.shared.text.compressed import opened
from dragoman.shared.text.lines import count_lines, read_lines
from dragoman.st.corpora.tsv import Tsv
from tests.small import refuses

WRITERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
PAIR = {"source_language": "en", "target_language": "de"}


@pytest.mark.parametrize("ending", WRITERS)
def test_lines_of_a_compressed_file(tmp_path, ending):
    path = tmp_path / f"train.en{ending}"
    path.write_bytes(WRITERS[ending]("\ufeffÄ\nb\r\nc".encode()))
    assert [*read_lines(path)] == ["Ä", "b", "c"] and count_lines(path) == 3
    path.write_bytes(path.read_bytes()[:-9])
    refuses(DataError, r"train\.en\.\w+: cannot be read", list, read_lines(path))


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("kind", [Moses, WMT])
def test_a_side_may_be_compressed(tmp_path, kind, ending):
    (tmp_path / f"train.en{ending}").write_bytes(WRITERS[ending](b"One.\nTwo.\n"))
    (tmp_path / "train.de").write_bytes(b"Eins.\nZwei.\n")
    (tmp_path / f"train.de.1{ending}").write_bytes(WRITERS[ending](b"A.\nB.\n"))
    reader = kind(root=tmp_path, **PAIR)
    assert [(row["source_text"], row["target_text"], row["target_text_1"]) for row in reader.rows("train")] == [
        ("One.", "Eins.", "A."),
        ("Two.", "Zwei.", "B."),
    ]


def test_monolingual_and_iwslt_and_tables(tmp_path):
    (tmp_path / "news.en.xz").write_bytes(lzma.compress(b"One.\n\nTwo.\n"))
    reader = Monolingual(root=tmp_path, language="en")
    assert [(row["id"], row["source_text"]) for row in reader.rows("news")] == [("news_1", "One."), ("news_3", "Two.")]
    (tmp_path / "train.tags.en-de.en.gz").write_bytes(gzip.compress(b"<url>x</url>\nOne.\n"))
    (tmp_path / "train.tags.en-de.de").write_bytes(b"<url>x</url>\nEins.\n")
    reader = IWSLT(root=tmp_path, **PAIR)
    assert [row["target_text"] for row in reader.rows("train")] == ["Eins."]
    assert reader.passed_over("train")["lines of tags"] == 1
    (tmp_path / "dev.tsv.bz2").write_bytes(bz2.compress(b"id\tsource_text\na\tHi.\n"))
    [row] = Tsv(root=tmp_path, source_language="en").rows("dev")
    assert row["source_text"] == "Hi."


@pytest.mark.parametrize("other", ["train.en.gz", "train.en.zst"])
def test_two_files_of_one_name_are_refused(tmp_path, other):
    for name in ("train.en", "train.de", other):
        (tmp_path / name).write_bytes(b"One.\n")
    refuses(DataError, rf"train\.en: both this and {other} are there", Moses, root=tmp_path, **PAIR)


@pytest.mark.parametrize("ending", ["zst", "zip", "rar", "7z", "lz4", "Z", "lzma", "tar", "tar.gz", "tgz", "GZ", "ZIP"])
def test_what_is_not_read_is_refused(tmp_path, ending):
    for name in ("dev.en", "dev.de", f"train.en.{ending}", "train.de"):
        (tmp_path / name).write_bytes(b"One.\n")
    with pytest.raises(
        DataError, match=rf"train\.en\.{ending}: not read; unpack it, or compress it as \.gz, \.bz2, \.xz"
    ):
        Moses(root=tmp_path, **PAIR)
    (tmp_path / "own").mkdir()
    for name in ("dev.csv", f"train.csv.{ending}"):
        (tmp_path / "own" / name).write_bytes(b"en,de\na,b\n")
    with pytest.raises(DataError, match=rf"train\.csv\.{ending}: not read; unpack it"):
        Tsv(root=tmp_path / "own", **PAIR)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "lost link", "nothing"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "train.en"
    messages = {"pipe": "a named pipe", "device": "a device", "folder": "a folder", "lost link": "no such file"}
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "lost link":
        path.symlink_to("elsewhere")
    with pytest.raises(DataError, match=messages.get(kind, "no such file")), opened(path):
        pass
    if kind in ("pipe", "device"):
        (tmp_path / "train.de").write_text("Eins.\n")
        refuses(DataError, messages[kind], prepare, Moses(root=tmp_path, **PAIR), tmp_path / "out", workers=1)
