"""One's own data in every layout, packed or not: what plain Python, csv and json wrote is what is read."""

import bz2
import csv
import gzip
import io
import json
import lzma
import random

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest
from dragoman.preparing.preparation import prepare
from dragoman.st.corpora.tsv import Tsv
from tests.small import refusal, refuses

PAIRS = [
    ("One, two.", "Eins; zwei."),
    ('He said "no".', "„Nein“, sagt er."),
    ("C:\\a", "Ende"),
    ("三，", "drei…"),
]
PAIR = {"source_language": "en", "target_language": "de"}
PACKED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
LAYOUTS = ["plain", "tsv", "csv", "semicolons", "jsonl", "translation"]
#: The number of the first line of a row.
FIRST = {"plain": 1, "tsv": 2, "csv": 2, "semicolons": 2, "jsonl": 1, "translation": 1}


def contents(layout, pairs, names):
    """Return the bytes of the files of a split by the endings of their names."""
    if layout == "plain":
        return {f".{code}": "".join(f"{pair[side]}\n" for pair in pairs) for side, code in enumerate(("en", "de"))}
    if layout == "tsv":
        return {".tsv": "".join("\t".join(cells) + "\n" for cells in (names, *pairs))}
    if layout in ("csv", "semicolons"):
        file = io.StringIO()
        csv.writer(file, delimiter="," if layout == "csv" else ";").writerows([names, *pairs])
        return {".csv": file.getvalue()}
    objects = (dict(zip(names, pair, strict=True)) for pair in pairs)
    inside = layout == "translation"
    return {".jsonl": "".join(json.dumps({"translation": one} if inside else one) + "\n" for one in objects)}


def write(folder, layout, pairs=PAIRS, *, split="train", names=("en", "de"), packed=""):
    folder.mkdir(parents=True, exist_ok=True)
    files = contents(layout, pairs, names)
    for ending, text in files.items():
        (folder / f"{split}{ending}{packed}").write_bytes(PACKED[packed](text.encode()))
    return [folder / f"{split}{ending}{packed}" for ending in files]


def read(root, split="train", **given):
    return [(row["source_text"], row["target_text"]) for row in Tsv(root=root, **PAIR | given).rows(split)]


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_of_each_layout_becomes_manifests(tmp_path, layout, packed):
    for split, pairs in (("train", PAIRS), ("dev", PAIRS[:1]), ("test", PAIRS[1:3])):
        write(tmp_path / "own", layout, pairs, split=split, packed=packed)
    corpus = Tsv(root=tmp_path / "own", **PAIR)
    assert corpus.splits() == ["train", "dev", "test"]
    prepare(corpus, tmp_path / "out", workers=1)
    for split, pairs in (("train", PAIRS), ("dev", PAIRS[:1]), ("test", PAIRS[1:3])):
        rows = [*Manifest.open(tmp_path / "out" / f"{split}.arrow")]
        assert [(row["source_text"], row["target_text"]) for row in rows] == pairs
        assert [row["id"] for row in rows] == [str(FIRST[layout] + number) for number in range(len(pairs))]
        assert {(row["source_language"], row["target_language"]) for row in rows} == {("en", "de")}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_one_file_is_enough(tmp_path, layout, packed):
    for file in write(tmp_path, layout, packed=packed, split="mine"):
        assert read(file, "mine") == PAIRS


@pytest.mark.parametrize("layout", LAYOUTS[1:])
@pytest.mark.parametrize(
    "names",
    [("source_text", "target_text"), ("source", "target"), ("src", "tgt"), ("English", "German"), ("EN", "DE")],
)
def test_columns_have_any_of_their_names(tmp_path, layout, names):
    write(tmp_path, layout, names=names)
    assert read(tmp_path) == PAIRS
    [(name, text)] = contents(layout, [pair[::-1] for pair in PAIRS], names[::-1]).items()
    (tmp_path / f"train{name}").write_text(text)
    assert read(tmp_path) == PAIRS  # in any order


@pytest.mark.parametrize("place", ["none", "empty", "other.xlsx", "train.fr"])
def test_one_message_names_every_layout_with_an_example(tmp_path, place):
    """All that it names is then tried."""
    (tmp_path / "empty").mkdir()
    for name in ("other.xlsx", "train.fr"):
        (tmp_path / name).write_text("x\n")
    said = refusal(DataError, lambda: Tsv(root=tmp_path / place, **PAIR))
    for part in ("train.tsv", "train.csv", "train.jsonl", "train.en and train.de", "source_text and target_text",
                 "source and target", "en and de", "audio", ".gz", "begins with en,de", "text/mt"):  # fmt: skip
        assert part in said
    assert str(tmp_path / place) in said and "\n" not in said


def texts(folder, split):
    return [row["source_text"] for row in Manifest.open(folder / f"{split}.arrow")]


def folded(text):
    return " ".join(text.lower().split())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_source_is_in_two_of_the_splits_that_are_drawn(tmp_path, layout):
    """Of 150 different sources, 4 % each; every third comes again in other case and with other spaces."""
    pairs = [(f"Sentence number {n}", f"Satz {n}") for n in range(150)]
    again = [(text.upper().replace(" ", "  "), f"{other} noch einmal") for text, other in pairs[::3]]
    found = []
    for seed in range(2):
        rows = random.Random(seed).sample([*pairs, *again], 200)
        write(tmp_path / f"{seed}", layout, rows)
        corpus = Tsv(root=tmp_path / f"{seed}", **PAIR, held_out=0.04)
        prepare(corpus, tmp_path / f"out{seed}", workers=1)
        found.append({split: texts(tmp_path / f"out{seed}", split) for split in corpus.splits()})
        assert [*found[-1]] == ["train", "dev", "test"]
        assert sorted(sum(found[-1].values(), [])) == sorted(text for text, _ in rows)
    drawn = [{split: {*map(folded, own)} for split, own in one.items()} for one in found]
    assert drawn[0] == drawn[1]  # whatever the order
    assert [len(drawn[0][split]) for split in ("train", "dev", "test")] == [138, 6, 6]
    assert len(set.union(*drawn[0].values())) == 150


@pytest.mark.parametrize("missing", ["dev", "test"])
def test_a_file_that_is_there_is_the_split_whatever_the_share(tmp_path, missing):
    pairs = [(f"Sentence {n}", f"Satz {n}") for n in range(50)]
    write(tmp_path, "csv", pairs)
    there = {"dev": "test", "test": "dev"}[missing]
    write(tmp_path, "csv", PAIRS, split=there)
    corpus = Tsv(root=tmp_path, **PAIR, held_out=0.1)
    assert {*corpus.splits()} == {"train", "dev", "test"} and read(tmp_path, there, held_out=0.1) == PAIRS
    [train, drawn] = (read(tmp_path, split, held_out=0.1) for split in ("train", missing))
    assert len(drawn) == 5 and sorted(train + drawn) == sorted(pairs)


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("layout", ["tsv", "csv", "semicolons", "jsonl"])
def test_tables_of_speech_may_be_of_each_layout(tmp_path, layout, packed):
    for name in "ab":
        soundfile.write(tmp_path / f"{name}.wav", np.full(8000, 0.1), 16000)
    rows = [("a.wav", "One, two."), ("b.wav", "Three."), ("a.wav", "Four.")]
    write(tmp_path, layout, rows, names=("audio", "English"), packed=packed)
    corpus = Tsv(root=tmp_path, source_language="en")
    assert corpus.passed_over("train") == {}
    prepare(corpus, tmp_path / "out", workers=1)
    found = [*Manifest.open(tmp_path / "out" / "train.arrow")]
    assert [(row["audio"], row["source_text"]) for row in found] == [
        (f"{tmp_path}/{file}", text) for file, text in rows
    ]
    assert [row["duration"] for row in found] == [0.5] * 3


@pytest.mark.parametrize(("name", "comma"), [("train.csv", ","), ("train.tsv", "\t")])
def test_lines_that_end_as_on_old_macs_are_refused(tmp_path, name, comma):
    (tmp_path / name).write_bytes(f"en{comma}de\rOne.{comma}Eins.\r".encode())
    refuses(DataError, rf"{name}, line 1: a carriage return \(.r\) within a line: end lines with", read, tmp_path)


def test_a_quote_without_an_end_is_named_where_it_opens(tmp_path):
    (tmp_path / "train.csv").write_text('en,de\none,eins\n"two,zwei\nthree,drei\n')
    rows = list(Tsv(root=tmp_path, source_language="en", target_language="de").rows("train"))
    assert rows[0]["source_text"] == "one" and len(rows) == 2
    assert str(rows[1]).endswith(
        "train.csv, line 3: unexpected end of data: a quote that opens in this row is not closed"
    )
