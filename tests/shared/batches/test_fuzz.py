"""Files that somebody else wrote: whatever is in them, reading works or is a DataError, never a traceback."""

import shutil
import struct
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dragoman import DataError, Manifest
from dragoman.commands.inspection import check_corpus
from dragoman.mt.corpora.monolingual import Monolingual
from dragoman.mt.corpora.moses import Moses
from dragoman.preparing.preparation import prepare
from dragoman.shared.sound.audio import read_audio
from dragoman.st.corpora.covost2 import CoVoST2
from dragoman.st.corpora.mustc import MustC
from dragoman.st.corpora.tsv import Tsv

#: Tries for each kind of file: a few in every run of the tests, many in the slow ones.
TRIES = [pytest.param(10, id="few"), pytest.param(500, id="many", marks=pytest.mark.slow)]

ODD = [b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\r", b"\n", b"\n\n", b"\t", b" ", b"\\", b'"', b"'", b"\xe2\x80\xa8"]
ODD += [b"nan", b"inf", b"-1", b"1e999", b"0x10", b"99999999999999999999", b"x" * 140_000, b"../..", b"/dev/null"]
ODD += [b"9" * 23, b"1e308", b"9" * 5000, b"\xed\xb3\xbf", b"\xf0\x9f\x98\x80", b"x" * 3000, b"\0" * 40, b"\xff" * 300]
YAML = [b"- ", b"{", b"}", b"[", b"]", b": ", b", ", b"&a ", b"*a", b"<<: ", b"? ", b"| ", b"---\n", b"...\n", b"# "]
YAML += [b"!!python/object:os.system ", b"%YAML 9.9\n", b"[" * 3000, b"[" * 100_000, b"{a: " * 3000, b"&a [*a, *a]"]
YAML += [b"&b [*a, *a, *a]", b"*b", b"wav: ", b"offset: ", b"\\ud800", b"'", b"null", b"~"]


def spoiled(content, odd):
    """Draw the content with some spans cut out, doubled, or replaced by odd or random bytes."""
    places = st.integers(0, len(content))
    pieces = st.sampled_from(odd) | st.binary(max_size=6)
    changes = st.lists(st.tuples(places, st.integers(0, 30), pieces, st.booleans()), min_size=1, max_size=5)

    def apply(changes):
        result = content
        for place, length, piece, double in changes:
            end = place + length
            result = result[:end] + piece + result[place:] if double else result[:place] + piece + result[end:]
        return result

    return changes.map(apply) | st.binary(max_size=60)


def tries(count):
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=count < 100,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def survives(make_corpus, folder):
    """Prepare and check a corpus; tell whether it was prepared.

    What was prepared can be read, and what was not leaves no manifest behind.
    """
    out = Path(tempfile.mkdtemp(dir=folder))
    prepared = False
    try:
        corpus = make_corpus()
        try:
            reports = prepare(corpus, out, workers=1)
        except DataError as error:
            assert len(" ".join(str(error).split())) < 5000
            assert not list(out.rglob("*.arrow"))
        else:
            for report in reports:
                assert len([*Manifest.open(report.path)]) == report.rows > 0
            prepared = True
        prepare_skipping(corpus, out)
        check_corpus(corpus, workers=1).findings.render().encode()
    except DataError:
        pass
    finally:
        shutil.rmtree(out)
    return prepared


def prepare_skipping(corpus, out):
    try:
        prepare(corpus, out, workers=1, skip_bad=True)
    except DataError:
        pass


def fuzz(count, folder, make_corpus, files, after=lambda: None):
    """Prepare a corpus whose files, ``{path: (content, drawn contents)}``, are as they were, and as they are drawn."""
    prepared = Counter()

    @tries(count)
    @example(tuple(content for content, _ in files.values()))
    @given(st.tuples(*(drawn for _, drawn in files.values())))
    def run(contents):
        for path, content in zip(files, contents, strict=True):
            path.write_bytes(content)
        prepared[survives(make_corpus, folder)] += 1
        after()

    run()
    assert prepared.total() > count and prepared[True]  # the corpus as it was is fine


@pytest.fixture
def talk(tmp_path):
    data = tmp_path / "en-de" / "data" / "train"
    (data / "wav").mkdir(parents=True)
    (data / "txt").mkdir()
    soundfile.write(data / "wav" / "t.wav", 0.3 * np.sin(np.arange(32000) / 9), 16000)
    (data / "txt" / "train.en").write_text("One.\nTwo.\n")
    (data / "txt" / "train.de").write_text("Eins.\nZwei.\n")
    return tmp_path


SEGMENTS = b"".join(
    b"- {duration: 0.750000, offset: %d.25, rW: 3, speaker_id: spk.7, wav: t.wav}\n" % offset for offset in (0, 1)
)


@pytest.mark.parametrize("count", TRIES)
def test_yaml(talk, count):
    file = talk / "en-de" / "data" / "train" / "txt" / "train.yaml"
    fuzz(count, talk, partial(MustC, root=talk), {file: (SEGMENTS, spoiled(SEGMENTS, ODD + YAML))})


TABLE = (
    b"id\taudio\tstart\tduration\tsource_text\ttarget_text\tspeaker\n"
    b"a\tt.wav\t0.5\t1.25\tOne two.\tEins zwei.\tann\nb\t\t\t\tThree.\tDrei.\t\nc\tt.wav\t\t\tFour.\tVier.\tbob\n"
)


@pytest.mark.parametrize("count", TRIES)
def test_tsv(talk, count):
    shutil.copy(talk / "en-de" / "data" / "train" / "wav" / "t.wav", talk / "t.wav")
    corpus = partial(Tsv, root=talk, source_language="en", target_language="de")
    fuzz(count, talk, corpus, {talk / "train.tsv": (TABLE, spoiled(TABLE, ODD))})


SENTENCES = {"en": b"One two.\nThree.\nFour.\n", "de": b"Eins zwei.\nDrei.\nVier.\n"}


@pytest.mark.parametrize("count", TRIES)
def test_txt(tmp_path, count):
    corpus = partial(Moses, root=tmp_path, source_language="en", target_language="de")
    files = {tmp_path / f"train.{code}": (lines, spoiled(lines, ODD)) for code, lines in SENTENCES.items()}
    fuzz(count, tmp_path, corpus, files)


@pytest.mark.parametrize("count", TRIES)
@pytest.mark.parametrize("characters", [0, 12])
def test_monolingual(tmp_path, count, characters):
    corpus = partial(Monolingual, root=tmp_path, language="en", characters=characters)
    fuzz(count, tmp_path, corpus, {tmp_path / "train.en": (SENTENCES["en"], spoiled(SENTENCES["en"], ODD))})


CLIPS = b"path\ttranslation\tsplit\na.wav\tOne two.\ttrain\nb.wav\tThree.\ttest\nc.wav\tFour.\ttrain_covost\n"
VALIDATED = (
    b"client_id\tpath\tsentence\tup_votes\nann\ta.wav\tUn deux.\t2\nbob\tb.wav\tTrois.\t2\neve\tc.wav\tQuatre.\t1\n"
)


@pytest.mark.parametrize("count", TRIES)
def test_covost2(talk, count):
    clips = talk / "fr" / "clips"
    clips.mkdir(parents=True)
    for name in "abc":
        shutil.copy(talk / "en-de" / "data" / "train" / "wav" / "t.wav", clips / f"{name}.wav")
    corpus = partial(CoVoST2, root=talk, source_language="fr", splits=["train"])
    tables = {"covost_v2.fr_en.tsv": CLIPS, "validated.tsv": VALIDATED}
    files = {talk / "fr" / name: (table, st.just(table) | spoiled(table, ODD)) for name, table in tables.items()}
    fuzz(count, talk, corpus, files)


def wav(format_tag, channels, rate, bits, block, sizes, chunk, samples):
    """Return a wav file with whatever numbers in its header."""
    fmt = struct.pack("<HHIIHH", format_tag, channels, rate, rate * 2 & 0xFFFFFFFF, block, bits)
    data = samples[: len(samples) // 2 * 2]
    chunks = b"fmt " + struct.pack("<I", sizes[1] if sizes[1] is not None else len(fmt)) + fmt
    chunks += chunk + b"data" + struct.pack("<I", sizes[2] if sizes[2] is not None else len(data)) + data
    return b"RIFF" + struct.pack("<I", sizes[0] if sizes[0] is not None else 4 + len(chunks)) + b"WAVE" + chunks


def numbers(bits, *usual):
    """Draw a usual number, or any number of `bits` bits."""
    return st.sampled_from(usual) | st.sampled_from(usual) | st.integers(0, 2**bits - 1)


SIZES = st.none() | st.none() | numbers(32, 0, 1, 16, 18, 40, 2**31, 2**32 - 1)
HEADERS = st.builds(
    wav,
    numbers(16, 1, 1, 3, 6, 7, 2, 17, 0xFFFE),
    numbers(16, 1, 2, 0, 1024),
    numbers(32, 16000, 8000, 44100, 44101, 0, 1),
    numbers(16, 16, 8, 24, 32, 64, 0),
    numbers(16, 2, 4, 0),
    st.tuples(SIZES, SIZES, SIZES),
    st.sampled_from([b"", b"LIST\x04\0\0\0abcd", b"fact\x04\0\0\0\xff\xff\xff\xff", b"junk\xff\xff\xff\x7f"]),
    st.binary(max_size=64).map(lambda part: part * 40),
)


USUAL = wav(1, 1, 16000, 16, 2, (None, None, None), b"", b"\1\2" * 400)


@pytest.mark.parametrize("count", TRIES)
def test_wav_headers(tmp_path, count):
    (tmp_path / "train.tsv").write_bytes(b"id\taudio\tsource_text\na\tt.wav\tOne two.\nb\tt.wav\tTwo.\n")

    def read():
        try:
            waveform = read_audio(tmp_path / "t.wav")
            assert waveform.dtype == np.float32 and waveform.ndim == 1 and np.abs(waveform).max() <= 1
        except DataError:
            pass

    corpus = partial(Tsv, root=tmp_path, source_language="en")
    fuzz(count, tmp_path, corpus, {tmp_path / "t.wav": (USUAL, HEADERS | spoiled(USUAL, ODD))}, after=read)
