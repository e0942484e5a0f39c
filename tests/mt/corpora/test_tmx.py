"""Translation memories: miniatures with every trap of the format that we know of, also broken ones."""

import gzip

import pytest

from dragoman import DataError, UsageError
from dragoman.mt.corpora.memories import read_units
from dragoman.mt.corpora.tmx import Tmx
from dragoman.preparing.preparation import prepare
from dragoman.shared.machine import extras
from dragoman.shared.text.lines import Unusable
from tests.small import refuses, sides

FRAME = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="*all*" segtype="sentence"><note>not this</note></header>
<body>
{units}
</body></tmx>
"""
ONE = '<tu><tuv xml:lang="en"><seg>One</seg></tuv><tuv xml:lang="de"><seg>Eins</seg></tuv></tu>'


def tu(**texts):
    """Return a unit; "en_US" stands for en-US."""
    variants = (f'<tuv xml:lang="{code.replace("_", "-")}"><seg>{text}</seg></tuv>' for code, text in texts.items())
    return f"<tu><prop type='x'>not this</prop>{''.join(variants)}</tu>"


def write(path, *units, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(FRAME.format(encoding=encoding, units="\n".join(units)).encode(encoding))
    return path


def reader(root, source="en", target="de", **options):
    return Tmx(root=root, source_language=source, target_language=target, **options)


def pairs(*arguments, split="train", **options):
    return sides(reader(*arguments, **options).rows(split))


def test_units_with_both_languages_are_rows(tmp_path):
    units = [tu(en="One &amp; all", fr="Un", de=" Eins\n und alle "), tu(en="No", fr="Non"), tu(en="Two", de=" "), ONE]
    write(tmp_path / "memory.tmx", *units)
    corpus = reader(tmp_path)
    found = list(corpus.rows("train"))
    languages = {"source_language": "en", "target_language": "de"}
    assert found == [
        {"id": "memory_1", "source_text": "One & all", "target_text": "Eins und alle"} | languages,
        {"id": "memory_4", "source_text": "One", "target_text": "Eins"} | languages,
    ]
    assert [row.line for row in found] == [5, 9]
    assert corpus.passed_over("train") == {"units without text in de": 2} and corpus.count("train") is None
    assert pairs(tmp_path, "de", "fr") == [("Eins und alle", "Un")]
    [report] = prepare(corpus, tmp_path / "out", workers=1)
    assert report.rows == 2


def test_a_language_is_read_from_its_regions(tmp_path):
    write(tmp_path / "a.tmx", tu(en_US="color", en_GB="colour", de_AT="Farbe"), tu(EN="x", en_GB="y", DE="z"))
    assert pairs(tmp_path) == [("color", "Farbe"), ("x", "z")]
    assert pairs(tmp_path, "en-GB", "de") == [("colour", "Farbe"), ("y", "z")]
    assert pairs(tmp_path, "en", "en-GB") == [("color", "colour"), ("x", "y")]
    write(tmp_path / "a.tmx", tu(EN_gb="colour", en_US="color"))
    assert pairs(tmp_path, "en", "en-GB") == [("color", "colour")]
    write(tmp_path / "a.tmx", tu(zh_TW="a", pt_BR="b"))
    assert pairs(tmp_path, "zh", "pt") == pairs(tmp_path, "zh-TW", "pt-BR") == [("a", "b")]
    refuses(DataError, r"no text of train is in zh-CN and pt; there are pt-BR, zh-TW", pairs, tmp_path, "zh-CN", "pt")


def test_the_first_of_several_variants_is_read(tmp_path):
    write(tmp_path / "a.tmx", '<tu><tuv xml:lang="en"><seg>First</seg></tuv>' + ONE.removeprefix("<tu>"))
    assert pairs(tmp_path) == [("First", "Eins")]


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ("<bpt i='1'>&lt;b></bpt>Save<ept i='1'>&lt;/b></ept> all", "Save all"),
        ("<hi type='x'>A <hi>nested</hi></hi> one", "A nested one"),
        ("a<ph>&lt;img alt='<sub>not this</sub>'/></ph>b <it pos='begin'>x</it><ut>y</ut>c", "ab c"),
        ("line<ph type='lb'>\\n</ph>break", "line break"),
        ("x<!-- not this -->y<?and not this?>z <![CDATA[<b>]]>", "xyz <b>"),
    ],
)
def test_codes_are_left_out(tmp_path, segment, text):
    write(tmp_path / "a.tmx", tu(en=segment, de=f"<hi>{text.replace('<', '&lt;')}</hi>"))
    assert pairs(tmp_path) == [(text, text)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_encodings_and_compression(tmp_path, encoding):
    path = write(tmp_path / "a.tmx", tu(en="caf\xe9", de="Übung"), encoding=encoding)
    (tmp_path / "b.tmx.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert pairs(tmp_path) == [("café", "Übung")] * 2
    assert [row["id"] for row in reader(tmp_path).rows("train")] == ["a_1", "b_1"]


def test_namespaces_and_older_attributes(tmp_path):
    path = write(tmp_path / "a.tmx", ONE.replace("xml:lang", "lang"))
    path.write_text(path.read_text().replace("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" '))
    assert pairs(tmp_path) == [("One", "Eins")]


def test_a_variant_without_a_language_is_named(tmp_path):
    write(tmp_path / "a.tmx", ONE, tu(en="Two", de="Zwei").replace(' xml:lang="de"', ""))
    _, bad = reader(tmp_path).rows("train")
    assert isinstance(bad, Unusable) and str(bad).endswith("a.tmx, line 6: a <tuv> without xml:lang")


def test_files_and_folders_are_splits(tmp_path):
    for name in ("a", "sub/b", "test", "dev/c", "dev/d"):
        write(tmp_path / f"{name}.tmx", tu(en=name, de=name.upper()))
    corpus = reader(tmp_path, held_out=0.1)
    found = {split: [row["id"] for row in corpus.rows(split)] for split in corpus.splits()}
    assert found == {"train": ["a_1", "sub/b_1"], "dev": ["dev/c_1", "dev/d_1"], "test": ["test_1"]}
    assert pairs(tmp_path / "a.tmx") == [("a", "A")]
    refuses(DataError, "no train, from which dev could be drawn", reader, tmp_path / "test.tmx", held_out=0.1)


def test_dev_and_test_are_drawn_without_a_text_in_two_of_them(tmp_path):
    write(tmp_path / "a.tmx", *(tu(en=f"text {n % 50}", de=f"t{n}") for n in range(100)), tu(fr="Un", de="Eins"))
    corpus = reader(tmp_path, held_out=0.1)
    found = {split: [pair[0] for pair in pairs(tmp_path, split=split, held_out=0.1)] for split in corpus.splits()}
    assert {split: len(texts) for split, texts in found.items()} == {"train": 80, "dev": 10, "test": 10}
    assert sum(len(set(texts)) for texts in found.values()) == 50
    assert [corpus.passed_over(split) for split in found] == [{}, {}, {}]  # of this reader nothing was read yet
    list(corpus.rows("train")), list(corpus.rows("dev"))
    assert [corpus.passed_over(split) for split in found] == [{"units without text in en": 1}, {}, {}]


BOMB = '<!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('<!DOCTYPE tmx SYSTEM "tmx14.dtd">', f"{BOMB}]>", "declares the entity 'a'; none is expanded here"),
        (
            '<!DOCTYPE tmx SYSTEM "tmx14.dtd">',
            '<!DOCTYPE tmx [<!ENTITY file SYSTEM "file:///etc/hostname">]>',
            "declares the entity 'file'",
        ),
        ("One", "&file;", "the entity &file; is not known"),
        ("</body></tmx>", "", "Premature end of data"),
        ("</seg>", "", "mismatch: seg line 5 and tuv"),
        ("One", "One & all", "xmlParseEntityRef: no name"),
        ("<tmx ", "<html><tmx ", "its outermost element is not <tmx>"),
        ("utf-8", "klingon", "ncoding"),
        ("One", "caf\udce9", "not proper UTF-8|invalid.*character|Invalid bytes"),
        (FRAME, "", "."),
    ],
)
def test_broken_files_are_named(tmp_path, old, new, message):
    path = write(tmp_path / "a.tmx", ONE)
    if new.startswith("<html>"):
        path.write_text(path.read_text() + "</html>")
    text = "" if old == FRAME else path.read_text().replace(old, new)
    assert text != path.read_text()
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    refuses(DataError, rf"a\.tmx(:|, line \d+:) .*({message})", pairs, tmp_path)


def test_units_are_forgotten(tmp_path):
    """Memory holds only the units that the parser has read ahead, some 32 KB of a file of 1 MB."""
    path = write(tmp_path / "a.tmx", *(tu(en=f"text {n}", de=f"Text {n} " * 20) for n in range(4000)))
    kept = []
    for number, unit in enumerate(read_units(path, "tmx", "tu")):
        if number % 500 == 499:
            kept.append(sum(1 for _ in unit.getroottree().iter("tu")))
    assert len(kept) == 8 and max(kept) < 400


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    refuses(DataError, r"neither a file that ends in \.tmx nor any below it", reader, tmp_path)
    write(tmp_path / "a.tmx", ONE)
    refuses(DataError, "source and target language are both 'de'", reader, tmp_path, "de", "de")
    refuses(DataError, "in en and fr; there are de, en; units without text in fr: 1", pairs, tmp_path, "en", "fr")
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    message = r"the reader tmx needs the library lxml: pip install 'dragoman\[memories\]'"
    refuses(UsageError, message, reader, tmp_path)
