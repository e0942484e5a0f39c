"""A miniature of every corpus that recipes read, all made from one tiny Almanac."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from dragoman.almanac import Almanac
from dragoman.mt.corpora.help_pages import split_of
from dragoman.preparing.preparation import prepare
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio
from dragoman.st.corpora.mustc import MustC
from tests.mt.corpora.test_libreoffice import write as write_pages
from tests.recipes.installed import RECIPES
from tests.recipes.libri import write_librilight, write_librispeech
from tests.st.corpora.test_europarl_st import write_europarl_st

#: Splits of MuST-C's layout that take the places of others' splits.
TAKEN = {"train": "train", "valid": "dev", "test": "tst-COMMON"}
SIZES = {"train": 24, "dev": 4, "tst-COMMON": 4, "tst-HE": 4, "text": 60}


#: The languages of the help that recipes read, beside English.
OF_HELP = ["fi", "de", "fr", "es", "it", "cs", "ru", "tr", "hi", "ko", "zh"]
PROGRAMS = "swriter", "scalc"


@pytest.fixture(scope="session")
def miniature(tmp_path_factory):
    """The folders of the corpora, by the folder of their recipes."""
    root = tmp_path_factory.mktemp("miniature")
    almanac = root / "almanac"
    pairs = [["en", "de"], ["fr", "en"]]
    Almanac(root=almanac, languages=["en", "de", "fr"], pairs=pairs, sizes=SIZES, workers=1).write()
    own = root / "own"
    own.mkdir()
    prepare(MustC(root=str(almanac)), root / "manifests", workers=1)
    columns = ["id", "audio", "start", "duration", "source_text", "target_text"]
    for split, name in (("train", "train"), ("dev", "dev"), ("test", "tst-COMMON")):
        manifest = Manifest.open(root / "manifests" / "en-de" / f"{name}.arrow")
        lines = ["\t".join(columns)] + ["\t".join(str(row[key]) for key in columns) for row in manifest]
        (own / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recordings = [line.split("\t")[:4] for line in (own / "test.tsv").read_text(encoding="utf-8").splitlines()]
    (own / "more.tsv").write_text("".join("\t".join(cells) + "\n" for cells in recordings), encoding="utf-8")
    write_mtedx(root / "mtedx", "es-en", root / "manifests" / "en-de")
    write_fleurs(root / "fleurs", root / "manifests" / "en-de")
    write_europarl_st(root / "europarl")
    (almanac / "text" / "monolingual").mkdir()
    for code in ("en", "de"):
        _dictionary(almanac / "text" / "dictionaries", "en", "de")
        text = (almanac / "text" / f"train.{code}").read_text(encoding="utf-8")
        (almanac / "text" / "monolingual" / f"train.{code}").write_text(text, encoding="utf-8")
    manifests = {name: root / "manifests" / "en-de" / f"{name}.arrow" for name in ("train", "dev", "tst-COMMON")}
    write_ted(root / "ted", almanac)
    splits = {"train-clean-100": "train", "dev-other": "dev", "test-clean": "tst-COMMON"}
    write_librispeech(root / "librispeech", {split: manifests[name] for split, name in splits.items()})
    write_librilight(root / "librilight", manifests["train"])
    write_help(root / "help", almanac)
    return {
        "help": root / "help",
        "librispeech": root / "librispeech",
        "librilight": root / "librilight",
        **_campaigns(root, almanac),
        "fleurs": root / "fleurs",
        "europarl": root / "europarl",
        "mtedx": root / "mtedx",
        "ted": root / "ted",
        "mustc": almanac,
        "covost2": almanac / "covost2",
        "text": almanac / "text",
        "own": own,
    }


def write_mtedx(root, pair, manifests):
    """Write Almanac's rows in the layout of mTEDx: each row is a talk of its own, in flac."""
    for split, name in TAKEN.items():
        rows = list(Manifest.open(manifests / f"{name}.arrow"))
        data = root / pair / "data" / split
        (data / "wav").mkdir(parents=True)
        (data / "txt").mkdir()
        for row in rows:
            soundfile.write(data / "wav" / f"{row['id']}.flac", sound_of(row), SAMPLE_RATE)
        items = [f"- {{duration: {row['duration']}, offset: 0.0, wav: {row['id']}.wav}}\n" for row in rows]
        (data / "txt" / f"{split}.yaml").write_text("".join(items))
        for language, column in zip(pair.split("-"), ("source_text", "target_text"), strict=True):
            texts = "".join(f"{row[column]}\n" for row in rows)
            (data / "txt" / f"{split}.{language}").write_text(texts, encoding="utf-8")


def write_fleurs(root, manifests):
    """Write Almanac's rows in the layout of FLEURS: the German side has the same sound, which nobody reads."""
    for split, name in TAKEN.items():
        rows = list(Manifest.open(manifests / f"{name}.arrow"))
        for config, column in (("en_us", "source_text"), ("de_de", "target_text")):
            path = root / config / {"valid": "validation"}.get(split, split) / "0000.parquet"
            path.parent.mkdir(parents=True)
            sounds = [{"bytes": flac_of(row), "path": f"{row['id']}.flac"} for row in rows]
            table = {"id": [*range(len(rows))], "raw_transcription": [row[column] for row in rows], "audio": sounds}
            pq.write_table(pa.table(table), path)


def write_ted(root, almanac):
    """Write the table of TED talks, and monolingual text; sentences in one language stand for all others."""
    codes = ["en", *next(recipe for name, recipe in RECIPES.items() if name.startswith("ted/")).value("languages")]
    texts = root / "monolingual"
    texts.mkdir(parents=True)
    for split, name in (("train", "train"), ("dev", "dev"), ("test", "dev")):
        columns = {}
        for code in codes:
            columns[code] = _lines(almanac, name, code if code in ("en", "de") else "fr")[:4]
            if split != "test":
                (texts / f"{split}.{code}").write_text("\n".join(columns[code]) + "\n", encoding="utf-8")
        columns["fr"] = [*columns["fr"][:3], "_ _ NULL _ _"]
        rows = [["talk_name", *codes], *([split, *cells] for cells in zip(*columns.values(), strict=True))]
        lines = "".join("\t".join(cells) + "\n" for cells in rows)
        (root / f"all_talks_{split}.tsv").write_text(lines, encoding="utf-8")


def write_help(root, almanac):
    """Write pages of LibreOffice's help; sentences in one language stand for all others."""
    texts = {code: _lines(almanac, "train", code if code in ("en", "de") else "fr") for code in ("en", *OF_HELP)}
    names = [f"{PROGRAMS[number % 2]}/page{number}" for number in range(300)]
    dev, test, train = ([n for n in names if split_of(n) == split] for split in ("dev", "test", "train"))
    for code, lines in texts.items():
        pages = {
            name: {
                f"{'par' if place else 'hd'}_id{place}": f"{code} {lines[(3 * number + place) % len(lines)]} {number}"
                for place in range(3)
            }
            for number, name in enumerate([*dev[:2], *test[:2], *train[:80]])
        }
        write_pages(root, "en-US" if code == "en" else code, pages)


def sound_of(row):
    return read_audio(row["audio"], row["start"], row["duration"])


def flac_of(row):
    file = io.BytesIO()
    soundfile.write(file, sound_of(row), SAMPLE_RATE, format="FLAC")
    return file.getvalue()


def _lines(almanac, split, code):
    return (almanac / "text" / f"{split}.{code}").read_text(encoding="utf-8").splitlines()


def _dictionary(folder, source, target):
    """Write a few words and what they might be translated by, in MUSE's layout."""
    folder.mkdir(exist_ok=True)
    words = {"en": ["the", "is", "in", "on", "a"], "de": ["der", "die", "in", "ist", "am"]}
    for one, other in ((source, target), (target, source)):
        pairs = zip(words.get(one, words["de"]), words.get(other, words["de"]), strict=True)
        (folder / f"{one}-{other}.txt").write_text("".join(f"{a} {b}\n" for a, b in pairs), encoding="utf-8")


def _sgm(file, lines, set_name):
    segments = "\n".join(f'<seg id="{n}">{line}</seg>' for n, line in enumerate(lines, 1))
    content = f'<srcset setid="{set_name}">\n<doc docid="one">\n{segments}\n</doc>\n</srcset>\n'
    file.write_text(content, encoding="utf-8")


def _campaigns(root, almanac):
    """Write PC32, WMT and IWSLT in their layouts; sentences in one language stand for all others."""
    pc32 = root / "pc32"
    texts = pc32 / "monolingual"
    texts.mkdir(parents=True)
    recipe, *_ = [recipe for name, recipe in RECIPES.items() if name.startswith("pc32/") and "exotic" in recipe.keys]
    for code in ("en", *recipe.value("languages"), *recipe.value("exotic")):
        known = code if code in ("en", "de", "fr") else "fr"
        (texts / f"train.{code}").write_text("\n".join(_lines(almanac, "train", known)[:9]) + "\n", encoding="utf-8")
    for code in recipe.value("languages"):
        known = code if code in ("de", "fr") else "fr"
        for split in ("train", "dev"):
            folder = pc32 / split / f"en_{code}"
            folder.mkdir(parents=True)
            for name, there in (("en", "en"), (code, known)):
                text = "\n".join(_lines(almanac, split, there)[:9]) + "\n"
                (folder / f"{split}.{name}").write_text(text, encoding="utf-8")
    for code in (*recipe.value("languages"), *recipe.value("exotic")):
        _dictionary(pc32 / "dictionaries", "en", code)
    for year, pair, training, tests in (
        ("wmt14", ("en", "de"), "europarl-v7+commoncrawl+news-commentary-v9", ("newstest2013", "newstest2014-deen")),
        ("wmt16", ("en", "ro"), "europarl-v8+SETIMES", ("newsdev2016-enro", "newstest2016-enro")),
        ("wmt17", ("tr", "en"), "SETIMES2", ("newstest2016-tren", "newstest2017-tren")),
    ):
        folder = root / year
        folder.mkdir()
        (folder / "pc32").symlink_to(pc32)
        _dictionary(folder / "dictionaries", *pair)
        for side, code in zip(("src", "ref"), pair, strict=True):
            known = code if code in ("en", "de") else "fr"
            for stem in training.split("+"):
                text = "\n".join(_lines(almanac, "train", known)) + "\n"
                (folder / f"{stem}.{pair[0]}-{pair[1]}.{code}").write_text(text, encoding="utf-8")
            for name in tests:
                _sgm(folder / f"{name}-{side}.{code}.sgm", _lines(almanac, "dev", known), name)
    for name in ("newsdev2016-roen", "newstest2016-roen"):  # the other direction has test files of its own
        for side, code, known in (("src", "ro", "fr"), ("ref", "en", "en")):
            _sgm(root / "wmt16" / f"{name}-{side}.{code}.sgm", _lines(almanac, "dev", known), name)
    talks = root / "iwslt14" / "de-en"
    talks.mkdir(parents=True)
    _dictionary(root / "iwslt14" / "dictionaries", "de", "en")
    for code in ("de", "en"):
        text = "\n".join(["<talkid>1</talkid>", *_lines(almanac, "train", code)]) + "\n"
        (talks / f"train.tags.de-en.{code}").write_text(text, encoding="utf-8")
        for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
            _sgm(talks / f"IWSLT14.{name}.de-en.{code}.xml", _lines(almanac, "dev", code), name)
    for name in ("wmt14", "iwslt14"):
        (root / name / "monolingual").mkdir()
        for code in ("de", "en"):
            text = "\n".join(_lines(almanac, "train", code)) + "\n"
            (root / name / "monolingual" / f"train.{code}").write_text(text, encoding="utf-8")
    return {name: root / name for name in ("pc32", "wmt14", "wmt16", "wmt17", "iwslt14")}
