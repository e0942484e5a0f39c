"""The reader of monolingual text files."""

import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.corpora.monolingual import Monolingual
from dragoman.preparing.preparation import prepare
from dragoman.shared.batches.find import text_manifests, text_readers
from tests import small
from tests.small import refuses


def test_texts_and_blank_lines(tmp_path):
    (tmp_path / "train.en").write_bytes("\ufeffOne.  Two.\r\n\n  \nThr\u2028ee. ".encode())
    (tmp_path / "test.en").write_text("Four.\n")
    (tmp_path / "train.de").write_text("Eins.\n")
    (tmp_path / "notes.txt").write_text("not a text\n")
    corpus = Monolingual(root=tmp_path, language="en")
    assert corpus.splits() == ["train", "test"] and corpus.folder == "en" and corpus.count("train") == 4
    assert corpus.inputs("train") == [tmp_path / "train.en"]
    rows = list(corpus.rows("train"))
    assert rows == [small.row("train_1", "One.  Two."), small.row("train_4", "Thr\u2028ee.")]
    assert [row.line for row in rows] == [1, 4] and corpus.passed_over("train") == {"blank lines": 2}


@pytest.mark.parametrize(
    ("language", "characters", "texts"),
    [
        ("en", 8, [(1, "One two."), (3, "3. Four."), (5, "Five"), (5, "fivefive"), (5, "."), (7, "6."), (8, "Seven.")]),
        ("en", 9, [(1, "One two."), (3, "3. Four."), (5, "Five"), (5, "fivefive."), (7, "6. Seven.")]),
        ("ja", 8, [(1, "One two."), (3, "3.Four."), (5, "Five"), (5, "fivefive"), (5, "."), (7, "6.Seven.")]),
    ],
)
def test_lines_of_a_document_are_joined(tmp_path, language, characters, texts):
    """A blank line ends a document, and a text; longer lines are cut."""
    lines = ["One", "two.", "3.", "Four.", "Five fivefive.", "", "6.", " Seven. ", ""]
    (tmp_path / f"train.{language}").write_text("\n".join(lines) + "\n")
    corpus = Monolingual(root=tmp_path, language=language, characters=characters)
    assert [(row.line, row["source_text"]) for row in corpus.rows("train")] == texts
    ids = [row["id"] for row in corpus.rows("train")]
    assert corpus.count("train") is None and ids[:4] == ["train_1", "train_3", "train_5", "train_5.2"]
    assert len({*ids}) == len(ids)


def test_several_files_and_languages(tmp_path):
    for code in ("en", "de"):
        for stem in ("news.2007", "news.2008", "dev"):
            (tmp_path / f"{stem}.{code}").write_text(f"{stem} {code}\n")
    splits = ["train=news.2007+news.2008", "dev"]
    readers = text_readers(
        reader=lambda language: Monolingual(root=tmp_path, language=language, splits=splits), languages=["en", "de"]
    )
    for corpus in readers:
        train, dev = prepare(corpus, tmp_path / "out", workers=1)
        assert (train.rows, dev.rows) == (2, 1)
    paths = text_manifests(folder=str(tmp_path / "out"), languages=["en", "de"], splits=["train", "dev"])
    found = [[(row["id"], row["source_text"], row["source_language"]) for row in Manifest.open(path)] for path in paths]
    assert found[2] == [("news.2007_1", "news.2007 de", "de"), ("news.2008_1", "news.2008 de", "de")]
    assert [len(rows) for rows in found] == [2, 1, 2, 1]


@pytest.mark.parametrize(
    ("language", "line", "parts"),
    [
        ("en", "word one\ttwo\tthree four", ["word one\ttwo", "three four"]),
        ("en", "a " + "b" * 25, ["a", "b" * 12, "b" * 12, "b"]),
        ("ja", "あ い" + "う" * 12, ["あ い" + "う" * 9, "う" * 3]),  # it would be a short text
        ("ja", "今日は\u3000さようなら\u3000またね", ["今日は\u3000さようなら", "またね"]),
    ],
)
def test_long_lines_are_cut(tmp_path, language, line, parts):
    (tmp_path / f"train.{language}").write_text(line + "\n")
    corpus = Monolingual(root=tmp_path, language=language, characters=12)
    assert [row["source_text"] for row in corpus.rows("train")] == parts


def test_a_line_of_megabytes_is_cut(tmp_path):
    """The rest of the line is not copied for each part, which took hours."""
    words = "word " * 320_000
    (tmp_path / "train.en").write_text(words + "\n")
    corpus = Monolingual(root=tmp_path, language="en", characters=14)
    texts = [row["source_text"] for row in corpus.rows("train")]
    assert set(texts[:-1]) == {"word word word"} and " ".join(texts) == words.strip()


def test_a_broken_line_is_named_and_alone(tmp_path):
    (tmp_path / "train.en").write_bytes(b"One.\nTwo.\nThree \xff.\nFour.\n" + b"More.\n" * 9)
    corpus = Monolingual(root=tmp_path, language="en", characters=10)
    found = [(row.line, row["source_text"]) for row in corpus.rows("train")]
    assert found[:3] == [(1, "One. Two."), (3, "Three \udcff."), (4, "Four.")]
    with pytest.raises(DataError, match=r"train\.en, line 3: row train_3: source_text is not UTF-8 \(byte 0xff"):
        prepare(corpus, tmp_path / "out")


def test_errors(tmp_path):
    (tmp_path / "folder.en").mkdir()
    refuses(DataError, r"no files ending in \.en", Monolingual, root=tmp_path, language="en")
    (tmp_path / "train.en").write_text("One.\n")
    english = {"root": tmp_path, "language": "en"}
    refuses(DataError, "no files 'dev' for split 'dev'; there are train", Monolingual, **english, splits=["dev"])
    refuses(DataError, "unknown language code 'english'", Monolingual, root=tmp_path, language="english")
    message = "^Monolingual: characters must be at least 0, not -1$"
    refuses(UsageError, message, Monolingual, **english, characters=-1)
