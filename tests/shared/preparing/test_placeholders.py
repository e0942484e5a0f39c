"""Placeholders that one side of a pair lacks, by hand values."""

import pytest

from dragoman.shared.preparing.findings import row_warnings
from dragoman.shared.preparing.placeholders import differing, placeholders


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("%s of %d, %5.2f, %-10s and %ld", ["%s", "%d", "%5.2f", "%-10s", "%ld"]),
        ("%1$s in %2$s", ["%s", "%s"]),
        ("%(name)s: %(size)d", ["%(name)s", "%(size)d"]),
        ("{0}, {1:.2f}, {name}, {user.id!r}", ["{0}", "{1:.2f}", "{name}", "{user.id!r}"]),
        ("${home} and $(ARG1)", ["${home}", "$(ARG1)"]),
        ('<b>bold</b><br/> <a href="x">here</a>', ["<b>", "</b>", "<br>", "<a>", "</a>"]),
        ("100% of 50 % des, 5%d, 100 %, %%s, %PRODUCTNAME, caf%C3%A9", []),
        ("{two words}, {x,y}, {{x}}, {}, $5 ($ARG)", []),
        ("<none>, a < b and c > d, <date/time>, <Beta>", []),
    ],
)
def test_placeholders_of_a_text(text, found):
    assert sorted(placeholders(text).elements()) == sorted(found)


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("%s of %s", "%2$s: %1$s", ""),
        ('<a href="en">%d</a>', "<a href='de'>%d</a>", ""),
        ("%s of %s", "%s", "source alone has %s"),
        ("{name} <b>x</b>", "{nom} <b>x", "source alone has </b> {name}, target alone has {nom}"),
        ("Open", "$(ARG1) öffnen", "target alone has $(ARG1)"),
    ],
)
def test_what_differs(source, target, said):
    assert differing(source, target) == said


def test_it_is_a_warning_about_a_pair():
    row = {"id": "a", "source_text": "%d files", "target_text": "Dateien"}
    row |= {"source_language": "en", "target_language": "de"}
    [problem] = row_warnings(row, None)
    assert problem.kind == "placeholders differ"
    assert problem.detail == "source alone has %d: '%d files', 'Dateien'"
    assert not [*row_warnings(row | {"target_text": "%d Dateien"}, None)]
    assert not [*row_warnings(row | {"target_text": None}, None)]
