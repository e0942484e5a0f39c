"""Challenge sets: files and scores that are made by hand, and what is wrong with files."""

import json

import pytest

from dragoman import DataError
from dragoman.commands.contrasts import Contrast, preferences, read_contrasts
from tests.small import refusal

HEADER = "id\tsource\treference\tcontrastive\tphenomenon\n"
ROWS = ["x\tbank\tUfer\tBank\thomograph", "x\tbank\tUfer\tBanken\tnumber", "", "y\ta nurse\tPfleger\tPflegerin\tgender"]
TABLE = HEADER + "".join(f"{row}\n" for row in ROWS)


def written(folder, content, name="set.json"):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_lingeval97s_rows(tmp_path):
    wrong = (("Der Börse stürzt.", "np_agreement"), ("Die Börse stürzt nicht.", "polarity"))
    errors = [{"type": kind, "contrastive": text, "distance": 1} for text, kind in wrong]
    row = {"source": "The market falls.", "reference": "Die Börse stürzt.", "origin": "newstest2009.1"}
    other = {"source": "a", "reference": "b", "errors": [{"type": "np_agreement", "contrastive": "c"}]}
    first, second = read_contrasts(written(tmp_path, [row | {"errors": errors}, other]))
    assert first == Contrast("1", "The market falls.", "Die Börse stürzt.", wrong, "np_agreement+polarity")
    assert second == Contrast("2", "a", "b", (("c", "np_agreement"),), "np_agreement")


def test_contrapros_rows_are_of_their_pronouns(tmp_path):
    wrong = tuple((f"{word} geht weiter.", "pronominal coreference") for word in ("Er", "Es"))
    errors = [{"contrastive": text, "replacement": text[:2].lower(), "type": kind} for text, kind in wrong]
    row = {"src segment": "It continues.", "ref segment": "Sie geht weiter.", "ante distance": 1, "errors": errors}
    row |= {"src pronoun": "It", "ref pronoun": "sie"}
    expected = Contrast("1", "It continues.", "Sie geht weiter.", wrong, "it:sie")
    assert read_contrasts(written(tmp_path, [row])) == [expected]


def test_rows_of_a_table(tmp_path):
    first, second = read_contrasts(written(tmp_path, TABLE, "set.tsv"))
    assert first == Contrast("x", "bank", "Ufer", (("Bank", "homograph"), ("Banken", "number")), "homograph+number")
    assert second == Contrast("y", "a nurse", "Pfleger", (("Pflegerin", "gender"),), "gender")


def test_decisions_are_counted_as_both_published_scripts_count_them():
    rows = [
        Contrast("1", "s", "r", (("a", "gender"), ("b", "number")), "gender+number"),
        Contrast("2", "s", "r", (("a", "gender"), ("b", "gender")), "gender"),
        Contrast("3", "s", "r", (("a", "number"),), "number"),
    ]
    scores = [-1.0, -2.0, -0.5, -3.0, -4.0, -3.5, -2.0, -2.0]  # right and wrong; both right; equal, which is wrong
    found = {(one.signature, round(one.value, 2), one.lines) for one in preferences(rows, scores)}
    assert found == {
        ("preferred|pairs:all", 60.0, 5),
        ("preferred|pairs:gender", 100.0, 3),
        ("preferred|pairs:number", 0.0, 2),
        ("preferred|rows:all", 33.33, 3),
        ("preferred|rows:gender+number", 0.0, 1),
        ("preferred|rows:gender", 100.0, 1),
        ("preferred|rows:number", 0.0, 1),
    }
    with pytest.raises(ValueError, match="7 scores are not those of 8 texts"):
        preferences(rows, scores[1:])


def test_what_is_wrong_with_a_file_is_told_with_its_row(tmp_path):
    def message(content, name="set.json"):
        return refusal(DataError, read_contrasts, written(tmp_path, content, name))

    assert "row 1 has no text 'reference' or 'ref segment', but None" in message([{"source": "a"}])
    assert "row 1 has no text 'source' or 'src segment', but 3" in message([{"source": 3}])
    assert "row '1' has no contrastive translation" in message([{"source": "a", "reference": "b"}])
    assert "row '1' has no reference" in message([{"source": "a", "reference": " ", "errors": [{"contrastive": "c"}]}])
    same = [{"source": "a", "reference": "b", "errors": [{"contrastive": "b"}]}]
    assert "row '1': 'b' is no contrast to the reference 'b'" in message(same)
    assert "errors must be a list, not 'c'" in message([{"source": "a", "reference": "b", "errors": "c"}])
    assert "must hold a list of rows, not dict" in message({"rows": []})
    assert "no JSON" in message("[{")
    assert "there are no rows" in message([])
    assert "there are no rows" in message(HEADER, "a.tsv")
    assert "column 'phenomenon' is missing" in message("id\tsource\treference\tcontrastive\nx\ta\tb\tc\n", "a.tsv")
    assert "a.tsv, line 2: 2 cells where the header has 5" in message(HEADER + "x\ta\n", "a.tsv")
    again = "x\ta\tb\tc\tp\ny\ta\tb\tc\tp\nx\ta\tb\td\tp\n"
    assert "line 4: id 'x' was there in line 2, with others between" in message(HEADER + again, "a.tsv")
    other = HEADER + "x\ta\tb\tc\tp\nx\ta\te\td\tp\n"
    assert "line 3: id 'x' has another source or reference" in message(other, "a.tsv")
    assert "line 3: id 'x' has 'c' twice" in message(HEADER + "x\ta\tb\tc\tp\nx\ta\tb\tc\tp\n", "a.tsv")
    (tmp_path / "b.tsv").write_bytes(HEADER.encode() + b"x\ta\tb\t\xff\tp\n")
    assert "row 'x': '\\udcff' is not valid Unicode" in refusal(DataError, read_contrasts, tmp_path / "b.tsv")
