"""A miniature of every corpus that recipes read, all made from one tiny Almanac."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from shared.almanac import Almanac
from shared.corpus.audio import SAMPLE_RATE, read_audio
from shared.corpus.manifest import Manifest
from shared.corpus.preparation import prepare
from st.corpora.mustc import MustC

#: Splits of MuST-C's layout that take the places of others' splits.
TAKEN = {"train": "train", "valid": "dev", "test": "tst-COMMON"}
SIZES = {"train": 24, "dev": 4, "tst-COMMON": 4, "tst-HE": 4, "text": 60}


@pytest.fixture(scope="session")
def miniature(tmp_path_factory):
    """The folders of the corpora, by the folder of their recipes."""
    root = tmp_path_factory.mktemp("miniature")
    almanac = root / "almanac"
    Almanac(root=almanac, languages=["en", "de", "fr"], pairs=[["en", "de"], ["fr", "en"]], sizes=SIZES).write()
    own = root / "own"
    own.mkdir()
    prepare(MustC(root=str(almanac)), root / "manifests", workers=1)
    columns = ["id", "audio", "start", "duration", "source_text", "target_text"]
    for split, name in (("train", "train"), ("dev", "dev"), ("test", "tst-COMMON")):
        manifest = Manifest.open(root / "manifests" / "en-de" / f"{name}.arrow")
        lines = ["\t".join(columns)] + ["\t".join(str(row[key]) for key in columns) for row in manifest]
        (own / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_mtedx(root / "mtedx", "es-en", root / "manifests" / "en-de")
    write_fleurs(root / "fleurs", root / "manifests" / "en-de")
    return {
        "fleurs": root / "fleurs",
        "mtedx": root / "mtedx",
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


def sound_of(row):
    return read_audio(row["audio"], row["start"], row["duration"])


def flac_of(row):
    file = io.BytesIO()
    soundfile.write(file, sound_of(row), SAMPLE_RATE, format="FLAC")
    return file.getvalue()
