"""Pairs of plain files by their names, in the layouts of XGLUE, fairseq and Du et al.; two sides of one language."""

import gzip

import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.corpora.aligned import Aligned
from dragoman.preparing.preparation import prepare
from tests.mt.corpora.test_moses import write
from tests.small import refuses, sides

CODES = {"source_language": "de", "target_language": "de"}
TEXTS = [("ein Artikel über Hunde", "Hunde"), ("noch ein Artikel", "Noch einer")]


@pytest.mark.parametrize(
    ("source", "target", "splits"),
    [
        ("NTG/xglue.ntg.{source_language}.src.{split}", "NTG/xglue.ntg.de.tgt.{split}", ["dev", "test"]),
        ("{split}.source", "{split}.target", ["train", "val"]),
        ("src-{split}.txt", "tgt-{split}.txt", ["train", "dev"]),
    ],
)
def test_files_are_found_by_their_names(tmp_path, source, target, splits):
    (tmp_path / "NTG").mkdir()
    for split in splits:
        names = [name.format(source_language="de", split=split) for name in (source, target)]
        write(tmp_path, *names, [(text, f"{split} {title}") for text, title in TEXTS])
    corpus = Aligned(root=tmp_path, **CODES, source_file=source, target_file=target)
    assert {*corpus.splits()} == {*splits} and corpus.folder == "de-de"
    for split in splits:
        rows = list(corpus.rows(split))
        assert sides(rows) == [(text, f"{split} {title}") for text, title in TEXTS]
        assert corpus.count(split) == 2 and len(corpus.inputs(split)) == 2
        assert rows[1]["id"] == f"{split}_2" and rows[1]["source_language"] == rows[1]["target_language"] == "de"


def test_splits_are_renamed_and_further_references_read(tmp_path):
    names = {"source_file": "{split}.source", "target_file": "{split}.target"}
    write(tmp_path, "val.source", "val.target", TEXTS)
    (tmp_path / "val.target.1").write_text("Tiere\n\n", encoding="utf-8")
    (tmp_path / "train.source").write_text("x\n", encoding="utf-8")
    packed = (tmp_path / "val.source").read_bytes()
    (tmp_path / "val.source").unlink()
    (tmp_path / "val.source.gz").write_bytes(gzip.compress(packed))
    corpus = Aligned(root=tmp_path, **CODES, **names, splits=["dev=val"])
    prepare(corpus, tmp_path / "out", workers=1)
    rows = list(Manifest.open(tmp_path / "out" / "de-de" / "dev.arrow"))
    assert [(row["target_text"], row["target_text_1"]) for row in rows] == [("Hunde", "Tiere"), ("Noch einer", None)]
    assert corpus.passed_over("dev") == {"files without the other side (train.source)": 1}


def test_what_is_wrong_is_named(tmp_path):
    names = {"source_file": "{split}.source", "target_file": "{split}.target"}
    refuses(DataError, "no files {split}.source and {split}.target", Aligned, root=tmp_path, **CODES, **names)
    for wrong in ("train.source", "{split}/a", "{split}.{split}"):
        changed = names | {"source_file": wrong}
        refuses(UsageError, "source_file must have {split} in its", Aligned, root=tmp_path, **CODES, **changed)
    write(tmp_path, "train.source", "train.target", TEXTS)
    (tmp_path / "train.target").write_text("Hunde\n", encoding="utf-8")
    corpus = Aligned(root=tmp_path, **CODES, **names)
    message = "train.source: 2 lines, but train.target has 1: line 2 has no partner"
    refuses(DataError, message, list, corpus.rows("train"))
    write(tmp_path, "train.source", "train.target", [(f"a {n}", "b" * (n > 11)) for n in range(111)])
    corpus = Aligned(root=tmp_path, **CODES, **names)
    message = r"de-de/train: 12 of 111 .* empty text: .*train.target, line 1"
    refuses(DataError, message, prepare, corpus, tmp_path, workers=1)
