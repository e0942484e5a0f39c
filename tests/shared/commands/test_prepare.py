"""``dragoman prepare``: a corpus that is made, and its layouts read back by name."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from shared.commands.prepare import corpus_class, prepare_corpus
from shared.corpus.manifest import Manifest
from shared.errors import DataError, UsageError


def prepare(*arguments, cwd):
    command = [sys.executable, "-m", "shared.cli", "prepare", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=200)


def test_the_help_lists_all_corpora():
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    shown = prepare("--help", cwd=".").stdout
    words = {*re.findall(r"\w+", shown)}
    assert {*project["entry-points"]["dragoman.corpora"]} <= words, shown


def test_almanac_is_written_and_read_back_in_all_its_layouts(tmp_path):
    sizes = "train=8,dev=2,tst-COMMON=2,tst-HE=2,text=10"
    made = prepare(
        "almanac",
        "--root",
        "corpus",
        "--languages",
        "en,de,fr",
        "--pairs",
        "en-de,fr-en",
        "--sizes",
        sizes,
        cwd=tmp_path,
    )
    assert made.returncode == 0, made.stderr
    for corpus, options, splits in (
        ("mustc", ["--target-language", "de"], {"train": 8, "tst-HE": 2}),
        ("covost2", ["--root", "corpus/covost2", "--source-language", "fr"], {"train": 8, "test": 2}),
        ("moses", ["--root", "corpus/text", "--source-language", "de,fr", "--target-language", "en"], {"train": 10}),
        ("monolingual", ["--root", "corpus/text", "--language", "de,fr"], {"train": 10}),
    ):
        read = prepare(corpus, "--root", "corpus", "--out", corpus, *options, cwd=tmp_path)
        assert read.returncode == 0, read.stderr
        folders = [path for path in (tmp_path / corpus).iterdir() if path.is_dir()]
        assert len(folders) == (2 if corpus in ("moses", "monolingual") else 1)
        for split, rows in splits.items():
            assert len(Manifest.open(folders[0] / f"{split}.arrow")) == rows
            assert split in read.stdout
    again = prepare("almanac", "--root", "corpus", "--languages", "en,de,fr", "--seed", "2", cwd=tmp_path)
    assert again.returncode == 1 and "almanac.json" in again.stderr


def test_an_unknown_corpus_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"almanac, covost2, .*monolingual, moses, .*mustc, .*tsv"):
        corpus_class("gigaword")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source-language", "de,xx"], "xx"),
        (["--source-language", "de,de"], "--source-language: 'de' is named twice"),
        (["--source-language", "de", "--splits", "train,train"], "--splits: 'train' is named twice"),
    ],
)
def test_nothing_is_prepared_before_all_options_are_checked(tmp_path, options, message):
    for language in ("de", "en", "xx"):
        (tmp_path / f"train.de-en.{language}").write_text("eins\n", encoding="utf-8")
    with pytest.raises((DataError, UsageError), match=message):
        prepare_corpus(
            "moses",
            root=tmp_path,
            out=tmp_path / "out",
            workers=1,
            arguments=[*options, "--target-language", "en"],
        )
    assert not (tmp_path / "out").exists()
