"""The reader of line-aligned text files."""

import pytest

from dragoman import DataError, Manifest
from dragoman.mt.corpora.moses import Moses
from dragoman.preparing.preparation import prepare
from tests import small
from tests.small import refuses

THREE = ["train", "dev", "test"]
PAIRS = [("Hello.", "Hallo."), ("A line\u2028in \x85two.", "Ei\rns."), ("  Bye. ", "Tschüss.")]


def moses(root, source="en", target="de", **options):
    return Moses(root=root, source_language=source, target_language=target, **options)


def write(root, source_name, target_name, pairs=PAIRS, end="\n"):
    """Write both sides."""
    root.mkdir(parents=True, exist_ok=True)
    for name, side in ((source_name, 0), (target_name, 1)):
        (root / name).write_bytes("".join(pair[side] + end for pair in pairs).encode())


@pytest.mark.parametrize(
    ("source", "target", "split"),
    [
        ("train.en", "train.de", "train"),
        ("news-commentary-v14.de-en.en", "news-commentary-v14.de-en.de", "news-commentary-v14"),
        ("corpus.en-de.en", "corpus.en-de.de", "corpus"),
        ("opus.de-en-train.en", "opus.de-en-train.de", "train"),
        ("opus.en-de-dev.en", "opus.en-de-dev.de", "dev"),
        ("de-en/opus.de-en-test.en", "de-en/opus.de-en-test.de", "test"),
        ("train/en_de/train.en", "train/en_de/train.de", "train"),
    ],
)
def test_names(tmp_path, source, target, split):
    """Every form of names is found, in both directions; only a newline ends a line."""
    (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
    write(tmp_path, source, target)
    (tmp_path / "train.fr").write_text("no partner\n")
    corpus = moses(tmp_path)
    assert corpus.splits() == [split] and corpus.folder == "en-de" and corpus.count(split) == 3
    rows = list(corpus.rows(split))
    assert small.sides(rows) == [(source.strip(), target.strip()) for source, target in PAIRS]
    assert rows[1] == small.row(f"{split}_2", "A line\u2028in \x85two.", "Ei\rns.")
    assert small.sides(moses(tmp_path, "de", "en").rows(split)) == [pair[::-1] for pair in small.sides(rows)]


def test_opus_100(tmp_path):
    """A pair is in alphabetical order; some have no dev and test, and those without English a test alone."""
    supervised, zero_shot = tmp_path / "supervised", tmp_path / "zero-shot"
    for pair, splits in {"de-en": THREE, "en-fr": THREE, "an-en": THREE[:1]}.items():
        for split in splits:
            names = [f"opus.{pair}-{split}.{code}" for code in pair.split("-")]
            write(supervised / pair, *names, [(f"{pair} {split} {side}",) * 2 for side in "ab"])
    write(zero_shot / "de-fr", "opus.de-fr-test.de", "opus.de-fr-test.fr", [("Hallo.", "Salut.")])
    assert moses(tmp_path, "en", "de").splits() == moses(tmp_path, "fr", "en").splits() == THREE
    assert moses(tmp_path, "an", "en").splits() == ["train"] and moses(tmp_path, "fr", "de").splits() == ["test"]
    assert small.sides(moses(tmp_path, "fr", "de").rows("test")) == [("Salut.", "Hallo.")]
    assert [row["source_text"] for row in moses(tmp_path, "fr", "en").rows("dev")] == ["en-fr dev a", "en-fr dev b"]
    refuses(DataError, r"no files ending in \.an and \.de with the same name", moses, tmp_path, "an", "de")


def test_ends_of_lines(tmp_path):
    (tmp_path / "dev.en").write_bytes(b"\xef\xbb\xbfOne.\r\nTwo.")
    (tmp_path / "dev.de").write_bytes(b"Eins.\nZwei.\n")
    assert small.sides(moses(tmp_path).rows("dev")) == [("One.", "Eins."), ("Two.", "Zwei.")]


def test_joined_splits(tmp_path):
    for stem in ("europarl-v7", "commoncrawl", "newstest2013"):
        write(tmp_path, f"{stem}.de-en.en", f"{stem}.de-en.de")
    corpus = moses(tmp_path, splits=["train=europarl-v7+commoncrawl", "newstest2013"])
    assert corpus.splits() == ["train", "newstest2013"] and corpus.count("train") == 6
    ids = [row["id"] for row in corpus.rows("train")]
    assert ids == [f"{stem}_{i}" for stem in ("europarl-v7", "commoncrawl") for i in (1, 2, 3)]
    message = r"no files 'x' for split 'dev'; there are commoncrawl, europarl-v7, newstest2013"
    refuses(DataError, message, moses, tmp_path, splits=["dev=x"])


def test_blank_lines(tmp_path):
    """In training blank lines are left out, counted and named; elsewhere they stay."""
    pairs = [("One.", "Eins."), ("", "Zwei."), ("Three.", "  ")]
    for split in ("train", "test"):
        write(tmp_path / "in", f"{split}.en", f"{split}.de", pairs)
    train, test = prepare(moses(tmp_path / "in"), tmp_path / "out")
    assert (train.rows, train.empty, test.rows, test.empty) == (1, 2, 3, 0)
    assert train.examples == [
        f"{tmp_path}/in/train.en, line 2: row train_2: source empty",
        f"{tmp_path}/in/train.de, line 3: row train_3: target empty",
    ]
    assert Manifest.open(tmp_path / "out/en-de/test.arrow")[1]["source_text"] == ""


def test_errors(tmp_path):
    write(tmp_path, "train.en", "train.de")
    corpus = moses(tmp_path)
    (tmp_path / "train.de").write_bytes((tmp_path / "train.de").read_bytes() + b"Noch eine.\n")
    refuses(DataError, r"train\.en: 3 lines, but train\.de has 4", list, corpus.rows("train"))
    (tmp_path / "train.de").write_bytes(b"Eins.\nZwei \xff.\nDrei.\n")
    message = r"train\.de, line 2: row train_2: target_text is not UTF-8 \(byte 0xff"
    refuses(DataError, message, prepare, corpus, tmp_path / "out")
    write(tmp_path, "train.en-de.en", "train.en-de.de")
    refuses(DataError, "would be 'train'", moses, tmp_path)
    refuses(DataError, r"no files ending in \.en and \.fr", moses, tmp_path, "en", "fr")
    refuses(DataError, "both 'en'", moses, tmp_path, "en", "en")


def test_further_references(tmp_path):
    """Numbered files beside a test become columns; one that is too short is named, blank lines are none."""
    write(tmp_path / "in", "test.en", "test.de")
    (tmp_path / "in" / "test.de.1").write_text("Servus.\n\nAdieu.\n")
    corpus = moses(tmp_path / "in")
    assert [path.name for path in corpus.inputs("test")] == ["test.en", "test.de", "test.de.1"]
    prepare(corpus, tmp_path / "out")
    manifest = Manifest.open(tmp_path / "out/en-de/test.arrow")
    assert manifest.column("target_text_1").to_pylist() == ["Servus.", None, "Adieu."]
    (tmp_path / "in" / "test.de.1").write_text("Servus.\n")
    refuses(DataError, r"test\.en: 3 lines, but test\.de\.1 has 1", list, corpus.rows("test"))
    (tmp_path / "in" / "test.de.3").write_text("not the second\n")
    refuses(DataError, r"test\.de\.3: a further reference, but test\.de\.2 is missing", corpus.inputs, "test")


def test_blank_lines_divide_documents(tmp_path):
    """They are no rows; the document that one begins is called after its first line."""
    write(tmp_path, "train.en", "train.de", [("", ""), ("a", "b"), ("c", "d"), ("", " "), ("", ""), ("e", "f")])
    corpus = moses(tmp_path, documents=True)
    rows = [(row["id"], row["document"], row["source_text"]) for row in corpus.rows("train")]
    assert rows == [("train_2", "train_2", "a"), ("train_3", "train_2", "c"), ("train_6", "train_6", "e")]
    assert corpus.passed_over("train") == {"blank lines between documents": 3}


def test_documents_that_end_on_one_side_only_are_an_error(tmp_path):
    write(tmp_path, "train.en", "train.de", [("a", "b"), ("c", ""), ("e", "f")])
    corpus, blank = moses(tmp_path, documents=True), "line 2: blank, where the other side has a sentence"
    refuses(DataError, rf"train\.de, {blank}", list, corpus.rows("train"))
    (tmp_path / "train.de").write_text("b\n\n")
    refuses(DataError, "train.en: 3 lines, but train.de has 2: line 3 has no", list, corpus.rows("train"))
