"""Files of JSON: strings are translated, and nothing else changes. The oracles are the json module and hand values."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("sentencex")

from dragoman.commands.json_files import JsonFile
from dragoman.shared.errors import DataError
from tests.dragoman.commands.formed import translated
from tests.small import examples

WORDS = st.lists(st.text("abcdefghé", min_size=1, max_size=5), max_size=4).map(" ".join)
VALUES = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('abc {}[],:"\\', max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return JsonFile(path, "en")


def upper(value):
    if isinstance(value, str):
        return value.upper()
    if isinstance(value, dict):
        return {key: upper(inner) for key, inner in value.items()}
    return [upper(inner) for inner in value] if isinstance(value, list) else value


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_values_are_translated_and_the_rest_stays(tmp_path, value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only) + "\n"
    made = translated(written(tmp_path / "a.json", text), str.upper)
    assert made == json.dumps(upper(value), indent=indent, ensure_ascii=ascii_only and "\\u" in text) + "\n"
    assert translated(written(tmp_path / "a.json", text), str) == text


def test_numbers_order_and_spaces_stay_to_the_byte(tmp_path):
    text = '{"z" : "one",\r\n\t"a":[1.50,1E5, 12345678901234567890 ,"two"  ], "e":{} , "z":"a\\/b" ,"u":"\\u00fc"}'
    made = translated(written(tmp_path / "a.json", text), lambda one: one + "!")
    for one, other in (('"one"', '"one!"'), ('"two"', '"two!"'), ("a\\/b", "a/b!"), ("\\u00fc", "\\u00fc!")):
        text = text.replace(one, other)
    assert made == text


@pytest.mark.parametrize(
    "mark",
    [
        *("{name}", "{0}", "{{name}}", "${name}", "%{name}", "{count, number}"),
        *("%s", "%d", "%1$s", "%(name)s", "%.2f", "%%", "%@", "$(ARG1)", "$t(key.other)", "&nbsp;", "<br/>", "<0>"),
        *("https://example.org/a?b=c", "help@example.org"),
    ],
)
def test_marks_are_kept_or_put_back(tmp_path, mark):
    text = json.dumps({"a": f"press {mark} now"}, ensure_ascii=False)
    kept = written(tmp_path / "a.json", text)
    made = json.loads(translated(kept, lambda one: f"jetzt {mark} drücken" if mark in one else one.upper()))
    assert made == {"a": f"jetzt {mark} drücken"}
    assert not [one for one in kept.remarks if "lost" in one]
    for broken in ("x", "", mark * 2, f"x {mark[:-1]}"):
        lost = written(tmp_path / "a.json", text)
        made = json.loads(translated(lost, lambda one, b=broken: b if mark in one else one.upper()))
        assert made == {"a": f"PRESS {mark} NOW"}
        assert "placeholders were lost, so translated in parts around them: a" in lost.remarks


@pytest.mark.parametrize(
    ("text", "expected", "asked"),
    [
        ("{name}", "{name}", []),
        ("https://example.org", "https://example.org", []),
        (" 12:30 ", " 12:30 ", []),
        ("<b>one</b>", "<b>ONE</b>", ["one"]),
        ("<b>One two.  Three.</b> Four.", "<b>ONE TWO.  THREE.</b> FOUR.", ["One two.", "Three.", "Four."]),
        ("  one\n\n\ttwo ", "  ONE\n\n\tTWO ", ["one", "two"]),
        ("50% off", "50% OFF", ["50% off"]),
        ("a < b", "A < B", ["a < b"]),
    ],
)
def test_what_is_shown_to_the_model(tmp_path, text, expected, asked):
    seen = []
    made = translated(written(tmp_path / "a.json", json.dumps([text])), lambda one: seen.append(one) or one.upper())
    assert (json.loads(made), seen) == ([expected], asked)


def test_remarks_name_paths(tmp_path):
    value = {"menu": {"two words": ["a", "use {x} now"]}, "n": "{n, plural, one {# file} other {# files}}"}
    file = written(tmp_path / "a.json", json.dumps(value))
    made = json.loads(translated(file, lambda one: re.sub(r"[{}]", "", one)))
    assert made == value
    assert file.remarks == [
        'placeholders were lost, so translated in parts around them: menu["two words"][1]',
        "the cases of a plural or select were translated one by one, and none was added: n",
    ]
    file = written(tmp_path / "a.json", json.dumps(["the <b>red</b> house"]))  # a pair of tags that is turned round
    made = translated(file, lambda one: "das </b>rote<b> Haus" if "<" in one else one.upper())
    assert json.loads(made) == ["THE <b>RED</b> HOUSE"] and file.remarks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{n, plural, one {# file} other {# files}}", "{n, plural, one {# FILE} other {# FILES}}"),
        (
            "{n, plural, offset:1 =0{nobody} one {you and {name}} other {you, <b>{name}</b>\nand # others}}",
            "{n, plural, offset:1 =0{NOBODY} one {YOU AND {name}} other {YOU, <b>{name}</b>\nAND # OTHERS}}",
        ),
        (
            "so far {g, select, male {he has {n, plural,\n one {a file}\n other {# files}}} other {all}} here\nend",
            "SO FAR {g, select, male {HE HAS {n, plural,\n one {A FILE}\n other {# FILES}}} other {ALL}} HERE\nEND",
        ),
        ("{n, plural, one {it's {x}} other {}}", "{n, plural, one {IT''S {x}} other {}}"),
        ("{n, plural, one {a file}} b", "{n, plural, one {a file}} B"),  # not complete
        ("{n, select, other {'{name}'}} b", "{n, select, other {'{name}'}} B"),
        ("{n, selectordinal, one {#st} other {#th}} b", "{n, selectordinal, one {#st} other {#th}} B"),
    ],
)
def test_the_cases_of_plurals_are_translated(tmp_path, text, expected):
    def shout(text):
        return re.sub(r"\{.*\}|</?.>|.", lambda match: match[0] if len(match[0]) > 1 else match[0].upper(), text)

    file = written(tmp_path / "a.json", json.dumps({"n": text}))
    assert json.loads(translated(file, shout)) == {"n": expected}
    left = expected[:-1] == text[:-1]
    said = "are not translated" if left else "were translated one by one, and none was added"
    assert file.remarks == [f"the cases of a plural or select {said}: n"]


def test_the_model_reads_a_name_in_the_place_of_a_plural(tmp_path):
    text = "{n} of {n, plural, one {# file} other {# files}} in {n, select, other {it}}, {'x'}"
    seen = []
    translated(written(tmp_path / "a.json", json.dumps([text])), lambda one: seen.append(one) or one)
    assert seen == ["{n} of {n_} in {n__}, {'x'}", "# file", "# files", "it"]


def test_what_a_model_adds_to_a_case_is_no_syntax(tmp_path):
    file = written(tmp_path / "a.json", json.dumps({"n": "{n, plural, one {the {x}} other {all #}}"}))
    made_by = {"the {x}": "l'{x} {y}", "all #": "tous # ou #"}
    made = json.loads(translated(file, lambda one: made_by.get(one, one.upper())))
    # Two numbers for one are a lost mark, so that the words before it are translated alone.
    assert made == {"n": "{n, plural, one {l''{x} '{'y'}'} other {ALL #}}"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1,\n "b" 2}', "a.json: line 2: no JSON: Expecting ':' delimiter (column 6)"),
        (b"", "a.json: line 1: no JSON: Expecting value (column 1)"),
        (b'["\xff"]', "a.json: is not UTF-8 (byte 0xff at 2)"),
        (b'{"a": ["\\ud800"]}', "a.json: a[0]: half a surrogate pair"),
        (b"[" * 100_000, "a.json: nested too deeply"),
    ],
)
def test_what_is_no_json_is_refused(tmp_path, content, message):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)):
        JsonFile(tmp_path / "a.json", "en")
