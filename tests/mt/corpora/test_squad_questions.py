"""Questions of SQuAD's layout: the sentence with the answer, and answers that are not where they should be."""

import json

import pytest

from dragoman import DataError
from dragoman.mt.corpora.squad_questions import SquadQuestions
from dragoman.shared.text.lines import Unusable
from tests.small import refuses

CODES = {"source_language": "de", "target_language": "de"}
CONTEXT = "Der Hund bellt. Die Katze  schläft! Der Hund frisst, und die Maus lacht."


def question(id, text, start, asked="Was?"):
    return {"id": id, "question": asked, "answers": [{"text": text, "answer_start": start}]}


def write(root, questions, name="train-v1.1.json"):
    content = {"data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": questions}]}], "version": "1.1"}
    (root / name).write_text(json.dumps(content), encoding="utf-8")
    return SquadQuestions(root=root, **CODES)


@pytest.mark.parametrize(
    ("answer", "start", "sentence"),
    [
        ("Der Hund", 0, "Der Hund bellt."),
        ("Hund", 39, "Der Hund frisst, und die Maus lacht."),
        ("Hund", 37, "Der Hund frisst, und die Maus lacht."),
        ("Hund", 6, "Der Hund bellt."),
        ("bellt. Die", 9, "Der Hund bellt. Die Katze schläft!"),
        ("schläft!", 26, "Die Katze schläft!"),
    ],
)
def test_the_source_is_the_sentence_with_the_answer(tmp_path, answer, start, sentence):
    corpus = write(tmp_path, [question("q1", answer, start, " Was\n denn? ")])
    [row] = corpus.rows("train")
    assert (row["id"], row["source_text"], row["target_text"]) == ("q1", sentence, "Was denn?")
    moved = corpus.passed_over("train")["answers found elsewhere than at their place"]
    assert moved == (CONTEXT[start : start + len(answer)] != answer)


def test_a_paragraph_is_the_source_on_demand(tmp_path):
    write(tmp_path, [question("q1", "Maus", 60)], "dev-v1.1.json")
    corpus = SquadQuestions(root=tmp_path, **CODES, paragraphs=True)
    [row] = corpus.rows("dev")
    assert row["source_text"] == " ".join(CONTEXT.split()) and corpus.splits() == ["dev"]


def test_what_is_wrong_is_named(tmp_path):
    corpus = write(
        tmp_path, [question("q1", "Pferd", 0), question("q2", "", 0), {"id": "q3", "question": "Wer?", "answers": []}]
    )
    found = list(corpus.rows("train"))
    assert [one.id for one in found if isinstance(one, Unusable)] == ["q1", "q2"] and len(found) == 2
    assert "question q1: its answer 'Pferd' is not in its context" in str(found[0])
    assert corpus.passed_over("train")["questions without an answer"] == 1
    for wrong in ([question("q1", 3, 0)], [question("q1", "Hund", "0")], [{"id": "q"}]):
        refuses(DataError, "train-v1.1.json: not in the layout of SQuAD", list, write(tmp_path, wrong).rows("train"))
    other = CODES | {"target_language": "en"}
    refuses(DataError, "not from de to en", SquadQuestions, root=tmp_path, **other)
    refuses(DataError, "no files of squad_questions in de-de", SquadQuestions, root=tmp_path / "x", **CODES)
