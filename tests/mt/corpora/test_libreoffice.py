"""LibreOffice's help: miniatures of its pages with every trap that we know of."""

import hashlib
from itertools import count

import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import DataError, UsageError
from dragoman.mt.corpora.help_pages import read_page
from dragoman.mt.corpora.libreoffice import LibreOffice
from dragoman.preparing.preparation import prepare
from dragoman.shared.machine import extras
from tests.small import refuses


def named(part):
    """Return the names of pages whose hash falls into a part of 60, from the definition."""
    for number in count():
        name = f"swriter/{number:08}"
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        if int.from_bytes(digest, "little") % 60 == part:
            yield name


DEV, TEST, TRAIN, MORE = next(named(58)), next(named(8)), next(named(0)), next(named(1))


def write(root, language, pages):
    """Write pages: their names, and what is in them or the texts by id."""
    for name, content in pages.items():
        path = root / "usr/share/libreoffice/help" / language / "text" / f"{name}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            tags = {key: "h2" if key.startswith("hd") else "p" for key in content}
            content = "".join(f'<{tags[key]} id="{key}">{text}</{tags[key]}>\n' for key, text in content.items())
        page = f'<!DOCTYPE html><html><head><meta charset="x-odd"><title>Not this</title></head><body>\n{content}'
        body = page.replace("<body>", '<body><p id="before">Menu</p><div id="DisplayArea">')
        path.write_text(f'{body}</div><footer><p id="bm_module">Module</p></footer></body></html>', encoding="utf-8")
    return root


def rows(root, split, source="en", target="de", **options):
    corpus = LibreOffice(root=root, source_language=source, target_language=target, **options)
    found = [(row["source_text"], row["target_text"]) for row in corpus.rows(split)]
    return found, dict(corpus.passed_over(split))


def one_page(tmp_path, content):
    write(tmp_path, "en-US", {"a": content})
    return {key: text for key, (text, _) in read_page(next(tmp_path.rglob("a.html"))).items()}


def test_paragraphs_and_headings_are_text_without_markup(tmp_path):
    content = """<h1 id="hd_id1" dir="auto">
    More  <a href="x">Breaks</a></h1><p class="embedded">No id</p>
    <p id="par_id2"><img alt="not this"><span class="avis">Press</span> <span class="keycode">Ctrl</span>+&uuml;&amp;
    &#8209;é.<br>Then x<sup>2</sup>&nbsp;&lt;b&gt;.</p><p id="par_id3"> </p><!-- not this --><h5 id="hd_id4">Übung</h5>
    <p id="N0105">日本</p>"""
    assert one_page(tmp_path, content) == {
        "hd_id1": "More Breaks",
        "par_id2": "Press Ctrl+ü& ‑é. Then x2 <b>.",
        "hd_id4": "Übung",
        "N0105": "日本",
    }


def switch(*wordings, of="switchinline", tag="span"):
    parts = [f'<{tag} hidden="true" id="{name}x_1" class="{name}">{text}</{tag}>' for name, text in wordings]
    return f'<span id="swlnsysx_1" class="{of}">{"".join(parts)}</span>'


def test_the_default_of_several_wordings_is_read_or_the_first(tmp_path):
    keys = switch(("MAC", "<b>Command</b>"), ("default", "<b>Ctrl</b>"))
    shapes = switch(("WRITER", "Text Box - "), ("CALC", "Object - "))
    both = switch(("WIN", "Windows"), ("default", f"others, {keys},"))
    block = switch(("CALC", '<p id="c">Cells</p>'), ("default", '<p id="d">Words</p>'), of="switch")
    content = f'<p id="a">Press {keys}+C</p><p id="b">Format - {shapes}Size {both}.</p>{block}'
    content += '<p id="e">Not <span hidden="true">this</span> that</p>'
    assert one_page(tmp_path, content) == {
        "a": "Press Ctrl+C",
        "b": "Format - Text Box - Size others, Ctrl,.",
        "d": "Words",
        "e": "Not that",
    }


def test_an_id_that_comes_again_has_its_number(tmp_path):
    content = '<p id="a">One</p><div><p id="a"> </p></div><p id="b">Three</p><h2 id="a">Four</h2>'
    assert one_page(tmp_path, content) == {"a": "One", "b": "Three", "a:3": "Four"}


@pytest.fixture
def packages(tmp_path):
    english = {"p1": "Open the file.", "p2": "Save", "p3": "LibreOffice", "p4": "Only in English"}
    german = {"p2": "Speichern", "p1": "Öffnen Sie die Datei.", "p3": "LibreOffice"}
    finnish = {"p1": "Avaa tiedosto.", "p2": "Tallenna", "p3": "LibreOffice", "p4": "Only in English"}
    dev = {"d1": "A  chart", "d2": "The dev page"}
    for language, texts, held in (
        ("en-US", english, dev),
        ("de", german, {"d1": "Ein Diagramm", "d2": "Die Dev-Seite"}),
        ("fi", finnish, {"d1": "Kaavio", "d2": "The dev page"}),
        ("pt-BR", {"p1": "Abra o arquivo."}, {}),
    ):
        write(tmp_path, language, {TRAIN: texts, DEV: held, TEST: {"t1": f"Test {language}"}})
    return tmp_path


def test_pages_and_ids_join_the_sides_in_the_order_of_the_english_page(packages):
    corpus = LibreOffice(root=packages, source_language="en", target_language="de")
    assert corpus.splits() == ["train", "dev", "test"] and corpus.folder == "en-de" and corpus.count("train") is None
    found = list(corpus.rows("train"))
    languages = {"source_language": "en", "target_language": "de", "document": TRAIN}
    assert found == [
        {"id": f"{TRAIN}#p1", "source_text": "Open the file.", "target_text": "Öffnen Sie die Datei."} | languages,
        {"id": f"{TRAIN}#p2", "source_text": "Save", "target_text": "Speichern"} | languages,
    ]
    assert [row.line for row in found] == [2, 3] and found[0].file.parts[-4:-1] == ("en-US", "text", "swriter")
    assert corpus.passed_over("train") == {
        "texts that are the English itself": 1,
        "paragraphs that are not in both languages": 1,
    }
    assert rows(packages, "train", "de", "en")[0] == [(text, other) for other, text in rows(packages, "train")[0]]
    write(packages, "en-US", {MORE: {"m1": "A page that is in no other language"}})
    found, passed = rows(packages, "train", "en", "pt-BR")
    assert found == [("Open the file.", "Abra o arquivo.")] and passed["paragraphs that are not in both languages"] == 4
    next(packages.rglob(f"{MORE}.html")).unlink()
    [train, dev, test] = prepare(corpus, packages / "out", workers=1)
    assert (train.rows, dev.rows, test.rows) == (2, 2, 1)


def test_between_others_each_side_has_to_be_translated(packages):
    assert rows(packages, "train", "de", "fi")[0] == [
        ("Öffnen Sie die Datei.", "Avaa tiedosto."),
        ("Speichern", "Tallenna"),
    ]
    assert rows(packages, "dev", "fi", "de") == ([("Kaavio", "Ein Diagramm")], {"texts that are the English itself": 1})


def test_texts_of_dev_and_test_are_in_no_training_row(packages):
    """Known by the source, by the target, by the English original of a text that is not translated there."""
    english = {"a": "a chart", "b": "Other", "c": "THE DEV\xa0PAGE", "d": "Fine", "e": "Fine"}
    write(packages, "en-US", {MORE: english})
    write(packages, "de", {MORE: {"a": "Eine Grafik", "b": "EIN  diagramm", "c": "Anders", "d": "Gut", "e": "Gut"}})
    write(packages, "fi", {MORE: {"a": "Kuva", "b": "Muu", "c": "Kehityssivu", "d": "Hyvä", "e": "Hieno"}})
    found, passed = rows(packages, "train")
    assert ("Fine", "Gut") in found and len(found) == 3
    assert (passed["texts of dev or test"], passed["repeated pairs"]) == (3, 1)
    kept = {("Open the file.", "Avaa tiedosto."), ("Save", "Tallenna")}
    further = {("Other", "Muu"), ("Fine", "Hyvä"), ("Fine", "Hieno")}
    assert set(rows(packages, "train", "en", "fi")[0]) == kept | further
    assert {("Gut", "Hyvä"), ("Gut", "Hieno")} == {
        pair for pair in rows(packages, "train", "de", "fi")[0] if "Gut" in pair
    }


words = st.text("aAbB \xa0", min_size=1, max_size=4).filter(str.strip)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(words, words, words), min_size=4, max_size=16))
def test_no_text_of_dev_or_test_is_in_training(tmp_path_factory, texts):
    """Whatever the texts are; and every paragraph is a row or counted."""
    root = tmp_path_factory.mktemp("help")
    pages = {name: texts[at::4] for at, name in enumerate((DEV, TEST, TRAIN, MORE))}
    for side, language in enumerate(("en-US", "de", "fi")):
        write(root, language, {name: {f"p{i}": one[side] for i, one in enumerate(of)} for name, of in pages.items()})

    def folded(text):
        return " ".join(text.casefold().split())

    for source, target, sides in (("en", "de", (0, 1)), ("fi", "de", (0, 1, 2))):
        held = {folded(one[side]) for name in (DEV, TEST) for one in pages[name] for side in sides}
        corpus = LibreOffice(root=root, source_language=source, target_language=target)
        found = list(corpus.rows("train"))
        for row in found:
            page, _, key = row["id"].partition("#p")
            original = pages[page][int(key)][0]
            assert not {folded(text) for text in (original, row["source_text"], row["target_text"])} & held
        assert len(found) + sum(corpus.passed_over("train").values()) == len(pages[TRAIN] + pages[MORE])


@pytest.fixture
def catalogues(packages):
    messages = {
        ("menu", "_Open"): {"de": "Öff_nen", "fi": "_Avaa"},
        ("tip", "A ~chart"): {"de": "Grafik", "fi": "Kuva"},
        ("", "%FILE_NAME is _new"): {"de": "%FILE_NAME ist _neu", "fi": ""},
        ("", "OK"): {"de": "OK", "fi": "Selvä"},
        ("again", "Open"): {"de": "Öffnen", "fi": "Avaa"},
    }
    for code in ("de", "fi"):
        file = polib.MOFile()
        file.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
        for (context, original), translations in messages.items():
            if translations[code]:
                file.append(polib.MOEntry(msgctxt=context or None, msgid=original, msgstr=translations[code]))
        path = packages / f"usr/lib/libreoffice/program/resource/{code}/LC_MESSAGES/sw.mo"
        path.parent.mkdir(parents=True)
        file.save(str(path))
    return packages


def test_catalogues_are_a_training_split_of_their_own(catalogues):
    found, passed = rows(catalogues, "train_catalogues", catalogues=True)
    assert sorted(found) == [("%FILE_NAME is new", "%FILE_NAME ist neu"), ("Open", "Öffnen")]
    assert passed == {"texts that are the English itself": 1, "texts of dev or test": 1, "repeated pairs": 1}
    found, passed = rows(catalogues, "train_catalogues", "de", "fi", catalogues=True)
    assert found == [("Öffnen", "Avaa")] and passed["messages that are not in both languages"] == 1
    corpus = LibreOffice(root=catalogues, source_language="en", target_language="de", catalogues=True)
    assert corpus.splits() == ["train", "train_catalogues", "dev", "test"]
    assert [path.name for path in corpus.inputs("train_catalogues")][-1] == "sw.mo"
    assert {row["context"] for row in corpus.rows("train_catalogues")} == {"again", None}


@pytest.mark.parametrize("part", ["usr", "usr/share", "usr/share/libreoffice", "usr/share/libreoffice/help"])
def test_the_root_may_be_a_folder_inside(catalogues, part):
    found = rows(catalogues / part, "train_catalogues", catalogues=True)[0]
    assert sorted(found) == sorted(rows(catalogues, "train_catalogues", catalogues=True)[0])


def test_broken_pages_are_named(packages):
    page = next(packages.rglob(f"de/text/{TRAIN}.html"))
    whole = page.read_bytes()
    page.write_bytes(whole.replace("Ö".encode(), b"\xd6"))
    refuses(DataError, rf"de/text/{TRAIN}\.html, line 3: not UTF-8 \(byte 0xd6", rows, packages, "train")
    page.write_bytes(b"")
    refuses(DataError, rf"de/text/{TRAIN}\.html: no page of HTML", rows, packages, "train")
    page.write_bytes(whole.replace(b"DisplayArea", b"Area"))
    refuses(DataError, rf"de/text/{TRAIN}\.html: no element with the id DisplayArea", rows, packages, "train")


def test_what_is_not_there_is_named(packages, tmp_path):
    help_folder = packages / "usr/share/libreoffice/help"
    (help_folder / "sk").symlink_to("de")
    refuses(DataError, "help/sk: a link to de: the package has no text in sk", rows, packages, "train", "en", "sk")
    refuses(DataError, "help: nothing in hu; there are de, en-US, fi, pt-BR", rows, packages, "train", "en", "hu")
    refuses(DataError, "source and target language are both 'de'", rows, packages, "train", "de", "de")
    refuses(DataError, "resource: nothing in de; there are no languages", rows, packages, "train", catalogues=True)
    refuses(DataError, r"no usr/share/libreoffice/help/en-US/text", rows, help_folder / "de", "train")


def test_libraries_that_are_missing_are_named(packages, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "polib" else name)
    assert rows(packages, "train")[0]
    message = r"the reader libreoffice needs the library polib: pip install 'dragoman\[memories\]'"
    refuses(UsageError, message, rows, packages, "train", catalogues=True)
