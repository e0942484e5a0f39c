"""Catalogues of gettext: miniatures; plural forms as Python's gettext chooses them."""

import gettext
import io
import struct

import polib
import pytest

from dragoman import DataError, UsageError
from dragoman.mt.corpora.gettext import Gettext, without_marks
from dragoman.preparing.preparation import prepare
from dragoman.shared.machine import extras
from dragoman.shared.text.lines import Unusable
from tests.small import refuses

HEADER = """msgid ""
msgstr ""
"Language: {language}\\n"
"Content-Type: text/plain; charset={charset}\\n"
"Plural-Forms: {plurals}\\n"

"""
GERMAN = "nplurals=2; plural=(n != 1);"
BODY = """#: menu.c:1
msgctxt "menu"
msgid "_Open"
msgstr "Öff_nen"

msgctxt "door"
msgid "_Open"
msgstr "Offen"

#, fuzzy
msgid "Nearly"
msgstr "Fast"

msgid "Not yet"
msgstr ""

msgid "A \\"long\\"\\n"
"  message"
msgstr "Eine \\"lange\\"\\n"
"Nachricht"

#, c-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

#~ msgid "Gone"
#~ msgstr "Weg"
"""


def write(path, body=BODY, language="de", charset="UTF-8", plurals=GERMAN):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = HEADER.format(language=language, charset=charset, plurals=plurals) + body
    path.write_bytes(text.encode(charset))
    return path


def reader(root, source="en", target="de", **options):
    return Gettext(root=root, source_language=source, target_language=target, **options)


def pairs(*arguments, **options):
    return [(row["source_text"], row["target_text"]) for row in reader(*arguments, **options).rows("train")]


def test_finished_messages_are_rows_and_others_are_counted(tmp_path):
    path = write(tmp_path / "po" / "de.po")
    corpus = reader(tmp_path)
    found = list(corpus.rows("train"))
    languages = {"source_language": "en", "target_language": "de"}
    expected = [
        ("1", "_Open", "Öff_nen", "menu"),
        ("2", "_Open", "Offen", "door"),
        ("5", 'A "long" message', 'Eine "lange" Nachricht', None),
        ("6", "%d file", "%d Datei", None),
        ("6.plural", "%d files", "%d Dateien", None),
    ]
    assert found == [
        {"id": f"po/de_{key}", "source_text": source, "target_text": target, "context": context} | languages
        for key, source, target, context in expected
    ]
    lines = path.read_text(encoding="utf-8").splitlines()
    assert all(lines[row.line - 1].startswith(("msgctxt", "msgid", "#")) for row in found)
    assert corpus.passed_over("train") == {"fuzzy messages": 1, "untranslated messages": 1, "obsolete messages": 1}
    [report] = prepare(corpus, tmp_path / "out", workers=1)
    assert report.rows == 5


def test_messages_may_be_the_target(tmp_path):
    write(tmp_path / "de.po")
    assert pairs(tmp_path, "de", "en") == [(target, source) for source, target in pairs(tmp_path)]
    write(tmp_path / "de.po", language="fr")
    refuses(DataError, "messages are in en, which is neither de nor fr", reader, tmp_path, "de", "fr")
    (tmp_path / "de.po").unlink()
    write(tmp_path / "x.po", 'msgid "Datei"\nmsgstr "Fichier"\n', "fr")
    assert pairs(tmp_path, "de", "fr", message_language="de") == [("Datei", "Fichier")]


FORMS = {
    "sl": "nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);",
    "ja": "nplurals=1; plural=0;",
    "ru": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
}


@pytest.mark.parametrize("ending", ["po", "mo"])
@pytest.mark.parametrize("code", FORMS)
def test_plurals_have_the_forms_that_a_program_would_show(tmp_path, code, ending):
    number = int(FORMS[code][9])
    forms = "".join(f'msgstr[{n}] "form {n}"\n' for n in range(number))
    path = write(tmp_path / f"{code}.po", f'msgid "file"\nmsgid_plural "files"\n{forms}', code, plurals=FORMS[code])
    catalogue = polib.pofile(str(path))
    theirs = gettext.GNUTranslations(io.BytesIO(catalogue.to_binary()))
    if ending == "mo":
        catalogue.save_as_mofile(str(path.with_suffix(".mo")))
        path.unlink()
    assert pairs(tmp_path, "en", code) == [
        ("file", theirs.ngettext("file", "files", 1)),
        ("files", theirs.ngettext("file", "files", 5)),
    ]


def test_plurals_without_a_formula_and_with_a_wrong_one(tmp_path):
    body = 'msgid "file"\nmsgid_plural "files"\nmsgstr[0] "Datei"\nmsgstr[1] "Dateien"\n'
    for none in ("", "nplurals=INTEGER; plural=EXPRESSION;"):  # nobody has filled in the second
        write(tmp_path / "de.po", body, plurals=none)
        assert pairs(tmp_path) == [("file", "Datei"), ("files", "Dateien")]
    write(tmp_path / "de.po", body, plurals="nplurals=3; plural=(n != 1) + 1;")
    one, several = reader(tmp_path).rows("train")
    assert one["target_text"] == "Dateien" and isinstance(several, Unusable) and several.line == 7
    assert several.reason == "form 2, for 5, is not there: 'file'"
    write(tmp_path / "de.po", body, plurals="nplurals=2; plural=(n != ;")
    refuses(DataError, r"de\.po: Plural-Forms in its header is 'nplurals=2; plural=\(n != ;'", pairs, tmp_path)


def test_languages_are_found_in_header_folder_and_name(tmp_path):
    body = 'msgid "One"\nmsgstr "{}"\n'
    places = {"de/LC_MESSAGES/a.po": "", "pt_BR/b.po": "", "po/fi.po": "", "po/c.po": "et_EE", "sw/messages.po": "hu"}
    for place, language in places.items():
        write(tmp_path / place, body.format(place), language)
    for code, place in zip(("de", "pt", "fi", "et", "hu"), places, strict=True):
        assert pairs(tmp_path, "en", code) == [("One", place)]
    others = {"catalogues of other languages (a.po, b.po, c.po and 1 more)": 4}
    assert reader(tmp_path, "en", "fi").passed_over("train") == others
    refuses(DataError, "no catalogue in nl; there are de, et, fi, hu, pt-BR", reader, tmp_path, "en", "nl")
    write(tmp_path / "pt/b.po", body.format("pt"), "")
    others = {"catalogues of other languages (a.po, b.po, c.po and 2 more)": 5}  # two of them are called b.po
    assert reader(tmp_path, "en", "fi").passed_over("train") == others
    assert pairs(tmp_path, "en", "pt") == [("One", "pt")]
    write(tmp_path / "po/fi.po", language="de")
    refuses(DataError, r"po/fi\.po: its header says de, its path fi", reader, tmp_path, "en", "fi")
    assert pairs(tmp_path, "en", "et") == [("One", "po/c.po")]


def test_splits_are_files_or_folders_or_drawn(tmp_path):
    write(tmp_path / "test" / "de" / "a.po", 'msgid "Test"\nmsgstr "Probe"\n', "")
    body = "".join(f'msgid "m{n}"\nmsgstr "t{n}"\n\n' for n in range(40))
    write(tmp_path / "b.po", body)
    assert reader(tmp_path).splits() == ["train", "test"]
    corpus = reader(tmp_path, held_out=0.1)
    split = {name: [row["source_text"] for row in corpus.rows(name)] for name in corpus.splits()}
    assert list(split) == ["train", "dev", "test"] and split["test"] == ["Test"] and len(split["dev"]) == 4
    assert {*split["train"], *split["dev"]} == {f"m{n}" for n in range(40)} and len(split["train"]) == 36
    assert [path.name for path in corpus.inputs("dev")] == ["b.po"]
    for name in ("train.de.po", "test.de.po"):
        write(tmp_path / "named" / name)
    assert reader(tmp_path / "named").splits() == ["train", "test"]


def test_a_catalogue_that_another_was_made_into_is_read_once(tmp_path):
    path = write(tmp_path / "de.po")
    polib.pofile(str(path)).save_as_mofile(str(tmp_path / "de.mo"))
    assert reader(tmp_path).passed_over("train") == {"catalogues that others were made into (de.mo)": 1}
    from_po = pairs(tmp_path)
    path.rename(tmp_path / "de.po.gz")
    assert sorted(pairs(tmp_path)) == sorted(from_po)
    packed = {"catalogues that are not read: unpack them (de.po.gz)": 1}
    assert reader(tmp_path).passed_over("train") == packed
    assert {row["context"] for row in reader(tmp_path).rows("train")} == {"menu", "door", None}


def test_encodings(tmp_path):
    write(tmp_path / "de.po", charset="ISO-8859-1")
    assert ("_Open", "Öff_nen") in pairs(tmp_path)
    path = tmp_path / "de.po"
    path.write_bytes(path.read_bytes().replace(b"ISO-8859-1", b"UTF-8"))
    refuses(DataError, r"de\.po, line 10: not UTF-8 \(byte 0xd6 at position 8\)", pairs, tmp_path)


def test_broken_catalogues_are_named(tmp_path):
    path = tmp_path / "de.po"
    for broken, message in (
        ('msgid Nearly"', ", line 17: no string in quotes that has an end: 'msgid Nearly\"'"),
        ('msgid "Near"ly"', ", line 17: no string in quotes that has an end"),
        ("Nearly", r": Syntax error in po file \(line 17\)"),
    ):
        write(path, BODY.replace('msgid "Nearly"', broken))
        refuses(DataError, rf"de\.po{message}", pairs, tmp_path)
    path.write_bytes(write(path).read_bytes()[:-2])
    refuses(DataError, r"de\.po, line 35: no string in quotes that has an end", pairs, tmp_path)
    polib.pofile(str(write(path))).save_as_mofile(str(tmp_path / "whole.mo"))
    whole = (tmp_path / "whole.mo").read_bytes()
    (tmp_path / "whole.mo").unlink()
    path.unlink()
    for broken in (whole[:-20], whole[:30], b"", b"x" + whole, struct.pack("<I", 0x950412DE)):
        (tmp_path / "de.mo").write_bytes(broken)
        refuses(DataError, r"de\.mo: .", pairs, tmp_path)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("_Save", "Save"),
        ("S&ave as...", "Save as..."),
        ("E~xtras", "Extras"),
        ("保存(_S)...", "保存..."),
        ("フォーム （&R）:", "フォーム:"),
        ("R&&D", "R&D"),
        ("A & B", "A & B"),
        ("Begin with an underscore (_).", "Begin with an underscore (_)."),
        ("Copy %FILE_NAME to <wizard_name>", "Copy %FILE_NAME to <wizard_name>"),
        ("_Rename %FILE_NAME", "Rename %FILE_NAME"),
        ("an _underlined_ word", "an _underlined_ word"),
        ("HT_ML", "HTML"),
        ("_...", "..."),
    ],
)
def test_marks_of_keys_are_taken_out(text, plain):
    assert without_marks(text, "_&~") == plain and without_marks(text, "") == text


def test_marks_are_an_option(tmp_path):
    write(tmp_path / "de.po")
    for marks, first in (("&", ("_Open", "Öff_nen")), ("_", ("Open", "Öffnen")), ("~&_", ("Open", "Öffnen"))):
        assert pairs(tmp_path, accelerator=marks)[0] == first
    refuses(UsageError, "accelerator is '#', not some of _&~", reader, tmp_path, accelerator="#")


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    refuses(DataError, r"neither a file that ends in \.po or \.mo nor any below it", reader, tmp_path)
    (tmp_path / "de.po.gz").write_bytes(b"")
    refuses(DataError, "de.po.gz: a packed catalogue is not read: unpack it", reader, tmp_path)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    message = r"the reader gettext needs the library polib: pip install 'dragoman\[memories\]'"
    refuses(UsageError, message, reader, tmp_path)
