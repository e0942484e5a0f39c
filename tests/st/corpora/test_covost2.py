"""The CoVoST 2 reader on miniatures of the layout."""

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest
from dragoman.preparing.preparation import prepare
from dragoman.shared.batches.manifest import COLUMNS
from dragoman.shared.text import languages
from dragoman.st.corpora.covost2 import FROM_ENGLISH, INTO_ENGLISH, CoVoST2
from tests.small import refuses

HEADER = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccent"
CLIPS = [  # path, speaker, sentence, translation, split
    ("c_1.mp3", "ann", "Un chat.", "A cat.", "train"),
    ("c_2.mp3", "bob", 'Il dit : "oui".', '"Yes," he says.', "train_covost"),
    ("c_3.mp3", "ann", "Trois\u2028mots.", "Three words.", "dev"),
    ("c_4.mp3", "eve", "C\\\\est \\\tça.", "That's\\\\it.", "test"),
]


def make_corpus(root, clips=CLIPS, source="fr", target="en"):
    """Write mp3 clips of 48 kHz (0.5 s, 0.6 s, ...) and both tables; the last clip has no translation."""
    home = root / source
    (home / "clips").mkdir(parents=True)
    for number, (path, *_) in enumerate(clips):
        noise = np.random.default_rng(number).uniform(-0.5, 0.5, int(48000 * (0.5 + number / 10)))
        soundfile.write(home / "clips" / path, noise, 48000, format="MP3", subtype="MPEG_LAYER_III")
    validated = [HEADER] + [f"{clip[1]}\t{clip[0]}\t{clip[2]}\t2\t0\t\t\t" for clip in reversed(clips)]
    validated.append("zoe\tunused.mp3\tPas traduit.\t2\t0\t\t\t")
    (home / "validated.tsv").write_text("\n".join(validated) + "\n", encoding="utf-8")
    rows = ["path\ttranslation\tsplit"] + [f"{clip[0]}\t{clip[3]}\t{clip[4]}" for clip in clips]
    (home / f"covost_v2.{source}_{target}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return home


def test_rows(tmp_path):
    """The tables are joined on path; train takes train_covost in; quotes are text and a backslash escapes."""
    make_corpus(tmp_path)
    corpus = CoVoST2(root=tmp_path, source_language="fr")
    assert corpus.splits() == ["train", "dev", "test"] and corpus.folder == "fr-en"
    train, dev, test = (list(corpus.rows(split)) for split in corpus.splits())
    assert [row["id"] for row in train] == ["c_1", "c_2"]
    audio = str(tmp_path / "fr/clips/c_2.mp3")
    values = ("c_2", audio, 0.0, None, 'Il dit : "oui".', "fr", '"Yes," he says.', "en", "bob", None)
    assert train[1] == dict(zip(COLUMNS, values, strict=True))
    assert dev[0]["source_text"] == "Trois\u2028mots."
    assert (test[0]["source_text"], test[0]["target_text"]) == ("C\\est \tça.", "That's\\it.")
    assert [corpus.count(split) for split in corpus.splits()] == [2, 1, 1]


def test_prepared(tmp_path):
    """Durations come from the decoded clips (mp3 pads to its frames)."""
    make_corpus(tmp_path)
    reports = prepare(CoVoST2(root=tmp_path, source_language="fr"), tmp_path / "out", workers=2)
    assert [report.rows for report in reports] == [2, 1, 1] and [report.speakers for report in reports] == [2, 1, 1]
    manifest = Manifest.open(tmp_path / "out/fr-en/train.arrow")
    np.testing.assert_allclose(manifest.column("duration"), [0.5, 0.6], atol=0.06)
    assert reports[0].seconds == pytest.approx(manifest.column("duration").sum())


def test_directions(tmp_path):
    """All 36 directions are known, also to the table of languages; any other is refused with those that exist."""
    assert len(INTO_ENGLISH) == 21 and len(FROM_ENGLISH) == 15
    directions = [(code, "en") for code in INTO_ENGLISH] + [("en", code) for code in FROM_ENGLISH]
    for source, target in directions:
        languages.check(source)
        home = tmp_path / source
        (home / "clips").mkdir(parents=True, exist_ok=True)
        (home / "validated.tsv").write_text(HEADER)
        (home / f"covost_v2.{source}_{target}.tsv").write_text("path\ttranslation\tsplit")
        assert CoVoST2(root=tmp_path, source_language=source, target_language=target).folder == f"{source}-{target}"
    for source, target in (("en", "fr"), ("fr", "de"), ("en", "en"), ("zh", "en"), ("en", "ru")):
        message = f"no direction {source} to {target}; it has fr, de, .* en to de, tr"
        refuses(DataError, message, CoVoST2, root=tmp_path, source_language=source, target_language=target)


def test_missing_clip(tmp_path):
    home = make_corpus(tmp_path)
    (home / "clips" / "c_2.mp3").unlink()
    corpus = CoVoST2(root=tmp_path, source_language="fr")
    message = r"covost2/fr-en/train: 1 of 2 .*fr_en\.tsv, line 3: row c_2: .*clips/c_2\.mp3"
    refuses(DataError, message, prepare, corpus, tmp_path / "out", workers=1)
    (home / "clips" / "c_2.mp3").write_bytes(b"")
    refuses(DataError, r"row c_2: .*clips/c_2\.mp3: .*0 bytes", prepare, corpus, tmp_path / "out", workers=1)
    reports = prepare(corpus, tmp_path / "out", workers=1, skip_bad=True)
    assert (reports[0].rows, reports[0].unusable) == (1, 1) and "c_2.mp3" in reports[0].examples[0]
    (home / "clips" / "c_4.mp3").unlink()
    message = r"fr-en/test: 1 of 1 rows cannot be used: .*tsv, line 5: row c_4"
    refuses(DataError, message, prepare, corpus, tmp_path / "other", workers=1, skip_bad=True)


def test_clip_without_sentence(tmp_path):
    """A translated clip that validated.tsv lacks (another release of Common Voice) is named with its line."""
    home = make_corpus(tmp_path)
    lines = (home / "validated.tsv").read_text(encoding="utf-8").split("\n")
    (home / "validated.tsv").write_text("\n".join(line for line in lines if "c_1.mp3" not in line), encoding="utf-8")
    message = r"fr_en\.tsv, line 2: row c_1: clip c_1\.mp3 is not in .*validated\.tsv .*--later"
    corpus = CoVoST2(root=tmp_path, source_language="fr")
    refuses(DataError, message, prepare, corpus, tmp_path / "out", workers=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("\ttest", "\teval"), r"fr_en\.tsv, line 5: unknown split 'eval' of clip c_4\.mp3"),
        (lambda text: text.replace("c_3.mp3", "c_1.mp3"), r"line 4: clip c_1\.mp3 is already used in line 2"),
        (lambda text: text.replace("\tdev", ""), r"fr_en\.tsv, line 4: 2 cells where the header has 3 \('c_3\.mp3'"),
        (lambda text: text.replace("path\t", "clip\t"), r"fr_en\.tsv, line 1: column 'path' is missing \(it has clip"),
    ],
)
def test_bad_table(tmp_path, change, message):
    path = make_corpus(tmp_path) / "covost_v2.fr_en.tsv"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    refuses(DataError, message, list, CoVoST2(root=tmp_path, source_language="fr").rows("train"))


def test_missing_files(tmp_path):
    (make_corpus(tmp_path) / "validated.tsv").unlink()
    message = r"fr/validated\.tsv: not there; .*with a login.*/covost.*parquet.*mtedx or fleurs"
    refuses(DataError, message, CoVoST2, root=tmp_path, source_language="fr")
    message = "no split 'valid'; it has train, dev, test"
    refuses(DataError, message, CoVoST2, root=tmp_path, source_language="fr", splits=["valid"])
