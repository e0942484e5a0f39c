"""CNN/DailyMail and XSum: miniatures of their published layouts."""

import hashlib
import json

import pytest

from dragoman import DataError
from dragoman.mt.corpora.stories import XSUM_LIST, CnnDailyMail, Xsum
from dragoman.shared.text.lines import Unusable
from tests.small import refuses

CODES = {"source_language": "en", "target_language": "en"}
STORY = "(CNN) -- One.\n\nTwo “three”\nfour.\n\n@highlight\n\nBolt wins\n\n@highlight\n\nHe is\nfast!\n"
PAGE = "[SN]URL[SN]\nhttp://x\n\n[SN]TITLE[SN]\nTitle\n[SN]FIRST-SENTENCE[SN]\nIt is one.\n"
PAGE += "[SN]RESTBODY[SN]\nShare this with\nEmail\nTwo.\nThree.\n"


def story(root, address, text, *, folder="cnn"):
    (root / folder / "stories").mkdir(parents=True, exist_ok=True)
    name = f"{hashlib.sha1(address.encode()).hexdigest()}.story"
    (root / folder / "stories" / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("folder", ["", "url_lists"])
def test_stories_are_found_by_the_hashes_of_their_addresses(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    for split in ("train", "test"):
        (tmp_path / folder / f"all_{split}.txt").write_text("http://a\nhttp://b\n\nhttp://gone\n", encoding="utf-8")
    story(tmp_path, "http://a", STORY)
    story(tmp_path, "http://b", "\n\n@highlight\n\nnothing else\n", folder="dailymail")
    corpus = CnnDailyMail(root=tmp_path, **CODES)
    assert corpus.splits() == ["train", "test"] and corpus.count("test") == 3 and len(corpus.inputs("test")) == 3
    [row, wrong] = corpus.rows("test")
    assert row["source_text"] == "(CNN) -- One. Two “three” four."
    assert row["target_text"] == "Bolt wins . He is fast!" and row.file.suffix == ".story"
    assert corpus.passed_over("test") == {"articles without text or summary": 1}
    assert isinstance(wrong, Unusable) and wrong.line == 4 and "no file" in str(wrong) and "all_test.txt" in str(wrong)


def test_they_are_english(tmp_path):
    (tmp_path / "all_train.txt").write_text("http://a\n", encoding="utf-8")
    codes = {"source_language": "en", "target_language": "de"}
    refuses(DataError, "no files of cnn_dailymail in en-de", CnnDailyMail, root=tmp_path, **codes)
    refuses(DataError, "no files of xsum in en-en", Xsum, root=tmp_path, **CODES)


def test_the_first_sentence_is_the_summary(tmp_path):
    lists = {"train": ["11"], "validation": [], "test": ["12", "13"]}
    (tmp_path / XSUM_LIST).write_text(json.dumps(lists), encoding="utf-8")
    (tmp_path / "bbc-summary-data").mkdir()
    for number in (11, 12):
        (tmp_path / "bbc-summary-data" / f"{number}.summary").write_text(PAGE, encoding="utf-8")
    corpus = Xsum(root=tmp_path, **CODES)
    assert corpus.splits() == ["train", "dev", "test"] and len(corpus.inputs("train")) == 2
    [row, wrong] = corpus.rows("test")
    assert (row["id"], row["source_text"], row["target_text"]) == ("12", "Two. Three.", "It is one.")
    assert isinstance(wrong, Unusable) and wrong.id == "13"
    (tmp_path / "bbc-summary-data" / "11.summary").write_text("[SN]URL[SN] x", encoding="utf-8")
    refuses(DataError, r"11.summary, line 1: no \[SN\]FIRST-SENTENCE", list, corpus.rows("train"))
    (tmp_path / XSUM_LIST).write_text('{"train": 3}', encoding="utf-8")
    refuses(DataError, "not lists of numbers by train", Xsum, root=tmp_path, **CODES)
