"""SQuAD's JSON: miniatures of four corpora, and places of answers that are wrong in all ways that are known."""

import json

import pytest

from dragoman import DataError
from dragoman.mt.corpora.squad import BYTES, LOST, MOVED, Mlqa, Squad, TydiQa, Xquad
from dragoman.preparing.preparation import prepare
from dragoman.shared.text.lines import Unusable
from tests.small import refuses

TEXT = "Der alte Mann füttert eine Katze.\nDie Katze schläft."


def asked(id, *answers, question="Wer?"):
    return {"id": id, "question": question, "answers": [{"text": a, "answer_start": n} for a, n in answers]}


def write(path, *questions, text=TEXT):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = [{"title": "x", "paragraphs": [{"context": text, "qas": list(questions)}]}]
    path.write_text(json.dumps({"version": "1.1", "data": data}, ensure_ascii=False), encoding="utf-8")
    return path


def test_answers_are_found_where_they_should_be_or_near(tmp_path):
    katze = TEXT.index("Katze")
    write(
        tmp_path / "squad/train-v1.1.json",
        asked("1", ("Mann", 9)),
        asked("2", ("Katze", katze + 2)),
        asked("3", ("Katze", katze - 3)),
        asked("4", ("Katze.", len(TEXT[:katze].encode()))),
        asked("5", ("Hund", 3)),
        asked("6", ("Katze", katze - 22)),
        asked("7", ("", 0)),
        asked("8"),
        asked("9", ("Mann", "9")),
        asked("10", ("Mann", -1)),
        asked("11", ("Mann", 9), question=None),
        asked("12", ("Hund", 3), ("Mann", 9), ("Mann", 9)),
        {"id": "13", "question": "Was?", "answers": [{"text": 5}]},
    )
    corpus = Squad(root=tmp_path, language="en")
    assert corpus.splits() == ["train"] and corpus.inputs("train") == [tmp_path / "squad/train-v1.1.json"]
    found = list(corpus.rows("train"))
    good = {row["id"]: row for row in found if not isinstance(row, Unusable)}
    starts = {id: row["answer_start"] for id, row in good.items()}
    assert starts == {"1": 9, "2": katze, "3": katze, "4": katze, "12": 9}
    for row in good.values():
        assert TEXT[row["answer_start"] :].startswith(row["answer_text"])
        assert row["source_text"] == TEXT and row["source_language"] == row["question_language"] == "en"
    assert corpus.passed_over("train") == {MOVED: 2, BYTES: 1}
    assert (good["12"]["answer_text"], good["12"]["answer_text_1"]) == ("Mann", "Hund")
    assert good["1"]["answer_text_1"] is None and "answer_text_2" not in good["1"]
    wrong = {row.id: str(row) for row in found if isinstance(row, Unusable)}
    assert list(wrong) == ["5", "6", "7", "8", "9", "10", "11", "13"]
    assert wrong["5"] == f"{tmp_path}/squad/train-v1.1.json: answer 'Hund' does not stand in its text"
    assert "the answers are []" in wrong["8"] and "the question is None" in wrong["11"] and "empty" in wrong["13"]


def test_the_nearer_of_two_is_meant(tmp_path):
    write(tmp_path / "train-v1.1.json", asked("1", ("ab", 5)), asked("2", ("ab", 4)), text="ab cd ab")
    assert [row["answer_start"] for row in Squad(root=tmp_path, language="en").rows("train")] == [6, 6]


def test_bad_rows_are_named_by_file_and_question(tmp_path):
    write(tmp_path / "c/squad/train-v1.1.json", *(asked(f"q{n}", ("Hund" if n == 3 else "Mann", 9)) for n in range(9)))
    corpus = Squad(root=tmp_path / "c", language="en")
    message = "c/squad/train-v1.1.json: row q3: answer 'Hund' does not stand"
    refuses(DataError, message, prepare, corpus, tmp_path / "m")
    [report] = prepare(corpus, tmp_path / "m", skip_bad=True)
    assert report.rows == 8 and report.left_out == 1


def test_an_answer_of_a_test_is_a_reference_wherever_it_stands(tmp_path):
    write(tmp_path / "xquad.de.json", asked("1", ("Hund", 3)), asked("2", ("Mann", 9), ("der Mann", 9)))
    corpus = Xquad(root=tmp_path, language="de")
    rows = list(corpus.rows("test"))
    assert [row["answer_start"] for row in rows] == [None, 9] and corpus.passed_over("test") == {LOST: 1}
    assert [row["answer_text_1"] for row in rows] == [None, "der Mann"]
    [report] = prepare(corpus, tmp_path / "manifests")
    assert report.rows == 2


def test_corpora_lie_where_they_are_published(tmp_path):
    one = asked("1", ("Mann", 9))
    for split in ("train", "dev"):
        write(tmp_path / f"squad/{split}-v1.1.json", one)
    for code in ("en", "de"):
        write(tmp_path / f"xquad/xquad.{code}.json", one)
        for split in ("dev", "test"):
            for other in ("en", "de"):
                write(tmp_path / f"mlqa/MLQA_V1/{split}/{split}-context-{code}-question-{other}.json", one)
    assert Xquad(root=tmp_path, language="en").splits() == ["train", "dev", "test"]
    assert Xquad(root=tmp_path, language="de").splits() == ["test"]
    assert Xquad(root=tmp_path / "xquad", language="de").splits() == ["test"]
    assert Mlqa(root=tmp_path, language="en").inputs("train") == [tmp_path / "squad/train-v1.1.json"]
    assert Mlqa(root=tmp_path, language="en").inputs("dev")[0].name == "dev-context-en-question-en.json"
    across = Mlqa(root=tmp_path, language="de", question_language="en")
    assert across.folder == "de-en" and across.splits() == ["dev", "test"]
    [row] = across.rows("test")
    assert (row["source_language"], row["question_language"]) == ("de", "en")
    refuses(DataError, "no files of squad in de", Squad, root=tmp_path, language="de")
    refuses(DataError, "no files of mlqa in fr", Mlqa, root=tmp_path, language="fr")


@pytest.mark.parametrize("divided", [False, True])
def test_tydiqa_in_one_file_or_many(tmp_path, divided):
    folder = tmp_path / "tydiqa"
    if divided:
        write(folder / "tydiqa-goldp-v1.1-train/tydiqa.goldp.fi.train.json", asked("7-0", ("Mann", 9)))
        write(folder / "tydiqa-goldp-v1.1-dev/tydiqa.goldp.fi.dev.json", asked("8-0", ("Mann", 9)))
    else:
        several = [asked(f"{name}-7-{n}", ("Mann", 9)) for n, name in enumerate(("finnish", "english", "finnish"))]
        write(folder / "tydiqa-goldp-v1.1-train.json", *several)
        write(folder / "tydiqa-goldp-v1.1-dev/tydiqa-goldp-dev-finnish.json", asked("finnish-8-0", ("Mann", 9)))
    corpus = TydiQa(root=tmp_path, language="fi")
    assert corpus.splits() == ["train", "dev"]
    ids = [row["id"] for row in corpus.rows("train")]
    assert ids == (["7-0"] if divided else ["finnish-7-0", "finnish-7-2"])
    assert corpus.passed_over("train") == ({} if divided else {"questions in other languages": 1})


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"data": 5}', '{"data": [{"paragraphs": [{"context": 5, "qas": [7]}]}]}', "x", "[" * 9999]
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "train-v1.1.json").write_text(content)
    corpus = Squad(root=tmp_path, language="en")
    refuses(DataError, "train-v1.1.json: not SQuAD's JSON", list, corpus.rows("train"))
