"""A miniature of every corpus that recipes read, all made from one tiny Almanac."""

import pytest

from shared.almanac import Almanac
from shared.corpus.manifest import Manifest
from shared.corpus.preparation import prepare
from st.corpora.mustc import MustC

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
    return {
        "mustc": almanac,
        "covost2": almanac / "covost2",
        "text": almanac / "text",
        "own": own,
    }
