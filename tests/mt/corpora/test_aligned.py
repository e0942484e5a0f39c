"""Pairs of plain files by their names, in the layouts of XGLUE, fairseq and Du et al.; two sides of one language."""

import gzip

import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.corpora.aligned import Aligned
from dragoman.preparing.preparation import prepare
from tests.mt.corpora.test_moses import write
from tests.small import refuses

XGLUE = {"source_file": "NTG/xglue.ntg.{source_language}.src.{split}", "target_file": "NTG/xglue.ntg.de.tgt.{split}"}
CODES = {"source_language": "de", "target_language": "de"}
TEXTS = [("ein Artikel über Hunde", "Hunde"), ("noch ein Artikel", "Noch einer")]


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (XGLUE, {split: [f"xglue.ntg.de.{side}.{split}" for side in ("src", "tgt")] for split in ("dev", "test")}),
        (
            {"source_file": "{split}.source", "target_file": "{split}.target"},
            {split: [f"{split}.source", f"{split}.target"] for split in ("train", "val")},
        ),
        (
            {"source_file": "src-{split}.txt", "target_file": "tgt-{split}.txt"},
            {split: [f"src-{split}.txt", f"tgt-{split}.txt"] for split in ("train", "dev")},
        ),
    ],
)
def test_files_are_found_by_their_names(tmp_path, names, files):
    for split, (source, target) in files.items():
        folder = tmp_path / "NTG" if names is XGLUE else tmp_path
        write(folder, source, target, [(text, f"{split} {title}") for text, title in TEXTS])
    corpus = Aligned(root=tmp_path, **CODES, **names)
    assert {*corpus.splits()} == {*files} and corpus.folder == "de-de"
    for split in files:
        rows = list(corpus.rows(split))
        assert [(row["source_text"], row["target_text"]) for row in rows] == [
            (text, f"{split} {title}") for text, title in TEXTS
        ]
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
    refuses(
        DataError, "train.source: 2 lines, but train.target has 1: line 2 has no partner", list, corpus.rows("train")
    )
    write(tmp_path, "train.source", "train.target", [(f"a {n}", "b" * (n > 11)) for n in range(111)])
    corpus = Aligned(root=tmp_path, **CODES, **names)
    refuses(
        DataError, r"de-de/train: 12 of 111 .* empty text: .*train.target, line 1", prepare, corpus, tmp_path, workers=1
    )
