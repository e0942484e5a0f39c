"""Catalogues and memories read as translate-toolkit reads them."""

import random
from pathlib import Path

import pytest

from dragoman.mt.corpora.gettext import Gettext
from dragoman.mt.corpora.tmx import Tmx
from dragoman.mt.corpora.xliff import Xliff

pytestmark = pytest.mark.parity
pytest.importorskip("translate", reason="translate-toolkit is not installed")

LANGUAGES = {"source_language": "en", "target_language": "de"}
WORDS = ["Save", "all", "<b>bold</b>", "Öffnen", "&amp;", '"quoted"', "5 %", "日本", "back\\slash", "100 °C", "_File"]
HEADER = {"Language": "de", "Content-Type": "text/plain; charset=UTF-8", "Plural-Forms": "nplurals=2; plural=(n != 1);"}


@pytest.fixture
def texts():
    drawn = random.Random(3)
    pairs = {" ".join(drawn.choices(WORDS, k=drawn.randint(1, 6))): "" for _ in range(200)}
    return {source: " ".join(drawn.choices(WORDS, k=drawn.randint(1, 6))) for source in pairs}


def read(reader, path, **options):
    corpus = reader(root=path, **LANGUAGES, **options)
    return {(row["source_text"], row["target_text"]) for row in corpus.rows("train")}


@pytest.mark.parametrize("kind", ["po", "mo"])
def test_catalogues(kind, texts, tmp_path):
    from translate.storage import mo, po

    store = po.pofile()
    store.updateheader(add=True, **{name.replace("-", "_"): value for name, value in HEADER.items()})
    for number, (source, target) in enumerate(texts.items()):
        unit = store.addsourceunit(source)
        unit.target = target if number % 7 else ""
        if number % 5 == 1:
            unit.markfuzzy()
    path = tmp_path / f"de.{kind}"
    if kind == "po":
        path.write_bytes(bytes(store))
        theirs = po.pofile.parsefile(str(path))
    else:
        written = mo.mofile()
        written.updateheader(add=True, **{name.replace("-", "_"): value for name, value in HEADER.items()})
        for unit in store.units:
            if unit.istranslated():
                made = mo.mounit(unit.source)
                made.target = unit.target
                written.addunit(made)
        path.write_bytes(bytes(written))
        theirs = mo.mofile.parsefile(str(path))
    wanted = {(unit.source, unit.target) for unit in theirs.units if unit.istranslated() and not unit.isheader()}
    assert read(Gettext, path) == wanted and len(wanted) > 100


def test_memories(texts, tmp_path):
    from translate.storage import tmx

    store = tmx.tmxfile()
    for source, target in texts.items():
        store.addtranslation(source, "en", target, "de")
    store.savefile(str(tmp_path / "memory.tmx"))
    theirs = tmx.tmxfile.parsefile(str(tmp_path / "memory.tmx"))
    assert read(Tmx, tmp_path) == {(unit.source, unit.target) for unit in theirs.units} == {*texts.items()}


@pytest.mark.parametrize("version", [1, 2])
def test_xliff(version, texts, tmp_path):
    from translate.storage import xliff, xliff2

    store = xliff.xlifffile() if version == 1 else xliff2.Xliff2File()
    store.setsourcelanguage("en")
    store.settargetlanguage("de")
    for number, (source, target) in enumerate(texts.items()):
        unit = store.addsourceunit(source)
        if number % 7:
            unit.target = target
            unit.markapproved() if version == 1 else None
    path = Path(tmp_path / "texts.xlf")
    store.savefile(str(path))
    theirs = type(store).parsefile(str(path))
    wanted = {(unit.source, unit.target) for unit in theirs.units if unit.target}
    assert read(Xliff, path) == wanted and len(wanted) > 100
