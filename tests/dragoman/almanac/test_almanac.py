"""Files of the first world, read with other libraries; the same settings give the same bytes."""

import csv
import hashlib
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml

from dragoman.almanac import Almanac, voices
from dragoman.almanac.frames import INTENTS, SPLITS, draw, randomness
from dragoman.almanac.sentences import sentence
from dragoman.shared.errors import DataError, UsageError
from tests.small import refuses

TINY = {"train": 42, "dev": 2, "tst-COMMON": 3, "tst-HE": 4, "text": 60}
PAIRS = [["en", "de"], ["en", "tr"], ["fr", "en"]]


def write(root, **changes):
    almanac = Almanac(**{**dict(root=root, pairs=PAIRS, sizes=TINY, seed=3, workers=2), **changes})
    heard = []
    almanac.write(lambda done, total: heard.append((done, total)))
    return heard


def digest(root):
    files = (path for path in sorted(Path(root).rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("almanac") / "corpus"
    heard = write(root)
    spoken = 2 * (42 + 2 + 3 + 4) + 2 * (42 + 2 + 3)  # two source languages, MuST-C and CoVoST 2
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    assert heard[-1] == (spoken, spoken)
    return root


def test_neither_workers_nor_other_pairs_change_a_byte(corpus, tmp_path):
    write(tmp_path / "one", pairs=[["fr", "en"]], workers=1)
    assert digest(tmp_path / "one" / "fr-en") == digest(corpus / "fr-en")
    assert digest(tmp_path / "one" / "covost2" / "fr") == digest(corpus / "covost2" / "fr")
    assert digest(tmp_path / "one" / "text") == digest(corpus / "text")


def test_nothing_but_the_corpus_is_left(corpus):
    assert sorted(path.name for path in corpus.iterdir()) == [
        "almanac.json", "covost2", "en-de", "en-tr", "fr-en", "text"
    ]  # fmt: skip
    assert not [path for path in corpus.rglob(".*")] and not list(corpus.rglob("*.new"))


def test_a_second_call_does_nothing(corpus):
    before = {path: path.stat().st_mtime_ns for path in corpus.rglob("*")}
    assert write(corpus, workers=1) == []
    assert {path: path.stat().st_mtime_ns for path in corpus.rglob("*")} == before


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("split", SPLITS)
def test_mustc_layout(corpus, pair, split):
    folder = corpus / "-".join(pair) / "data" / split
    segments = yaml.safe_load((folder / "txt" / f"{split}.yaml").read_text(encoding="utf-8"))
    texts = {code: (folder / "txt" / f"{split}.{code}").read_text(encoding="utf-8").splitlines() for code in pair}
    assert len(segments) == len(texts[pair[0]]) == len(texts[pair[1]]) == TINY[split]
    assert {path.name for path in (folder / "wav").iterdir()} == {segment["wav"] for segment in segments}
    for wav in {segment["wav"] for segment in segments}:
        samples, rate = soundfile.read(folder / "wav" / wav)
        assert rate == 16_000 and samples.ndim == 1 and soundfile.info(folder / "wav" / wav).subtype == "PCM_16"
        mine = [segment for segment in segments if segment["wav"] == wav]
        assert len(mine) <= 40 and len({segment["speaker_id"] for segment in mine}) == 1
        end = 0.0
        for segment in mine:
            start, length = segment["offset"], segment["duration"]
            assert 0.2 < start - end < 1.1 and 0.8 < length < 12
            speech = samples[round(start * rate) : round((start + length) * rate)]
            pause = samples[round(end * rate) : round(start * rate)]
            assert len(speech) == round(length * rate)
            assert np.std(speech) > 8 * np.std(pause), "the pause is loud, or the offset wrong"
            end = start + length
        assert end * rate == pytest.approx(len(samples), abs=1)
    for segment, text in zip(segments, texts[pair[0]], strict=True):
        assert segment["rW"] == len(text.split())


def test_longer_sentences_take_longer(corpus):
    folder = corpus / "en-de/data/train/txt"
    segments = yaml.safe_load((folder / "train.yaml").read_text(encoding="utf-8"))
    lengths = [len(line) for line in (folder / "train.en").read_text(encoding="utf-8").splitlines()]
    assert np.corrcoef([segment["duration"] for segment in segments], lengths)[0, 1] > 0.7


def test_pairs_of_a_source_share_its_talks(corpus):
    de, tr, fr = (digest(corpus / pair / "data/train/wav") for pair in ("en-de", "en-tr", "fr-en"))
    assert de == tr and de.keys() == fr.keys() and all(de[name] != fr[name] for name in de)
    one, other = ((corpus / f"{pair}/data/dev/txt/dev.en").read_text(encoding="utf-8") for pair in ("en-de", "fr-en"))
    assert one == other


def test_voices_of_tst_he_are_heard_nowhere_else(corpus):
    files = {split: corpus / f"en-de/data/{split}/txt/{split}.yaml" for split in SPLITS}
    segments = {split: yaml.safe_load(file.read_text(encoding="utf-8")) for split, file in files.items()}
    speakers = {split: {segment["speaker_id"] for segment in own} for split, own in segments.items()}
    unseen = {f"spk.{len(voices.SEEN_VOICES) + 1 + index}" for index in range(len(voices.UNSEEN_VOICES))}
    assert speakers["tst-HE"] <= unseen and len(voices.SEEN_VOICES) >= 12
    assert not speakers["tst-HE"] & (speakers["train"] | speakers["dev"] | speakers["tst-COMMON"])


@pytest.mark.parametrize(("source", "targets"), [("en", ["de", "tr"]), ("fr", ["en"])])
def test_covost_layout(corpus, source, targets):
    def table(path):
        with path.open(encoding="utf-8", newline="") as lines:
            return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))

    folder = corpus / "covost2" / source
    validated = table(folder / "validated.tsv")
    assert len(validated) == 42 + 2 + 3 and all(len(row["client_id"]) == 128 for row in validated)
    assert {row["path"] for row in validated} == {path.name for path in (folder / "clips").iterdir()}
    for row in validated[:10]:
        samples, rate = soundfile.read(folder / "clips" / row["path"])
        assert soundfile.info(folder / "clips" / row["path"]).format == "MP3"
        assert 0.8 < len(samples) / rate < 12 and np.std(samples) > 0.01
    for target in targets:
        rows = table(folder / f"covost_v2.{source}_{target}.tsv")
        assert [row["path"] for row in rows] == [row["path"] for row in validated]
        assert Counter(row["split"] for row in rows) == {"train": 42, "dev": 2, "test": 3}


def test_moses_layout(corpus):
    for split, lines in {"train": 60, "dev": 2, "test": 3}.items():
        texts = [(corpus / "text" / f"{split}.{code}").read_text(encoding="utf-8") for code in ("en", "de", "fr", "tr")]
        assert [text.count("\n") for text in texts] == [lines] * 4
        assert len(set(texts)) == 4


def test_monolingual_layout(tmp_path):
    """Each language has texts of its own: by and large, they say other things."""
    settings = {"languages": ["en", "de"], "pairs": [], "layouts": ["monolingual"], "seed": 3}
    Almanac(root=tmp_path / "a", sizes=TINY, **settings).write()
    texts = {}
    for split, lines in {"train": 60, "dev": 2}.items():
        for code in ("en", "de"):
            texts[split, code] = (tmp_path / f"a/monolingual/{split}.{code}").read_text(encoding="utf-8").splitlines()
            assert len({*texts[split, code]}) == lines
    sayings = draw("train", 60, randomness(3, "monolingual", "en", "train"))
    assert texts["train", "en"] == [sentence(saying, "en") for saying in sayings]
    assert len({sentence(saying, "de") for saying in sayings} & {*texts["train", "de"]}) < 6
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["almanac.json", "monolingual"]


def test_two_at_once_write_it_once(tmp_path, monkeypatch):
    """Two recipes that share a corpus and are started together, of which one would read what the other replaces."""
    write, written = Almanac._write, []

    def slow(self, progress):
        written.append(self.root)
        time.sleep(0.5)
        write(self, progress)

    monkeypatch.setattr(Almanac, "_write", slow)
    sizes = {"text": 6, "dev": 2, "tst-COMMON": 2, "tst-HE": 2}
    settings = {"languages": ["en", "de"], "pairs": [], "layouts": ["moses"], "sizes": sizes}
    one, other = (Almanac(root=tmp_path / "corpus", **settings) for _ in range(2))
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda corpus: corpus.write(), (one, other)))
    assert len(written) == 1 and other._finished()
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_an_interrupted_corpus_is_completed_to_the_same_bytes(corpus, tmp_path):
    class Killed(Exception):
        pass

    def kill(done, total):
        if done > 60:
            raise Killed

    root = tmp_path / "killed"
    almanac = Almanac(root=root, pairs=[["en", "de"]], sizes=TINY, seed=3, workers=1)
    with pytest.raises(Killed):
        almanac.write(kill)
    assert json.loads((root / "almanac.json").read_text())["finished"] is False
    assert not list(root.rglob("*.tsv"))
    (root / ".almanac" / "covost2-en-47.mp3").write_bytes(b"half a recording")
    kept = {path: path.stat().st_mtime_ns for path in root.rglob("ted_*.wav")}
    assert kept
    almanac.write()
    assert digest(root / "en-de") == digest(corpus / "en-de")
    assert digest(root / "covost2/en/clips") == digest(corpus / "covost2/en/clips")
    assert not (root / ".almanac").exists()
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items()), "what was spoken is spoken again"


def test_other_settings_are_refused(corpus):
    refuses(DataError, r"almanac\.json: written with seed=3, asked for is 4", write, corpus, seed=4)
    refuses(DataError, "almanac.json: written with sizes=", write, corpus, sizes={**TINY, "dev": 4})


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    refuses(DataError, "not empty", write, tmp_path)
    (tmp_path / "almanac.json").write_text("{")
    refuses(DataError, r"almanac\.json: not a file that Almanac wrote", write, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["almanac.json", "thesis.txt"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"languages": ["en", "xx"], "pairs": [["en", "xx"]]}, "language 'xx'"),
        ({"pairs": [["en", "en"]]}, r"\['en', 'en'\]"),
        ({"languages": ["en", "de"]}, r"\['en', 'tr'\]"),
        ({"sizes": {"trian": 4}}, "size 'trian'"),
        ({"sizes": {"train": 0}}, "train .* not 0"),
        ({"layouts": ["kaldi"]}, "layout 'kaldi'"),
        ({"layouts": []}, "layout"),
        ({"workers": -1}, "-1"),
        ({"seed": "one"}, "'one'"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, changes, message):
    refuses(UsageError, message, write, tmp_path, **changes)


@pytest.mark.parametrize("package", ["num2words", "babel"])
def test_missing_packages_name_the_extra_and_leave_nothing(tmp_path, monkeypatch, package):
    from dragoman.almanac import words

    for function in (words.number, words.month, words.weekday):
        function.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(DataError, match=r"pip install 'dragoman\[demo\]'"):
        write(tmp_path / "corpus", layouts=["mustc"], sizes={**TINY, "train": 20 * len(INTENTS)})
    assert not (tmp_path / "corpus").exists()


def test_a_full_disk_is_named_with_the_recording(tmp_path, file_size_limit):
    """The process that speaks inherits the limit; so small a file as almanac.json fits."""
    with file_size_limit(20_000), pytest.raises(DataError, match=r"/en-de/data/.*\.wav: File too large$"):
        write(tmp_path, workers=1)
