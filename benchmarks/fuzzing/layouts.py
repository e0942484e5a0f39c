"""A small sound corpus of each layout that a reader knows: the files by their names, and how the reader is made."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile

from dragoman.mt.corpora.iwslt import IWSLT
from dragoman.mt.corpora.monolingual import Monolingual
from dragoman.mt.corpora.moses import Moses
from dragoman.mt.corpora.ted import Ted
from dragoman.mt.corpora.wmt import WMT
from dragoman.st.corpora.covost2 import CoVoST2
from dragoman.st.corpora.europarl_st import EuroparlST
from dragoman.st.corpora.fairseq_s2t import FairseqS2T
from dragoman.st.corpora.fleurs import Fleurs
from dragoman.st.corpora.kaldi import Kaldi
from dragoman.st.corpora.lhotse import Lhotse
from dragoman.st.corpora.librilight import LibriLight
from dragoman.st.corpora.librispeech import LibriSpeech
from dragoman.st.corpora.mtedx import MTedx
from dragoman.st.corpora.mustc import MustC
from dragoman.st.corpora.nemo import Nemo
from dragoman.st.corpora.parquet import Parquet
from dragoman.st.corpora.tsv import Tsv

#: Names of files and what is in them.
Files = dict[str, bytes]


class Layout(NamedTuple):
    """A corpus.

    Attributes:
        files: by their places under the root.
        reader: makes the reader of a root.

    """

    files: Files
    reader: Callable[[Path], Any]


def sound(format: str = "WAV", channels: int = 1) -> bytes:
    """Return a sound file of two seconds at 8 kHz, with another tone in each channel."""
    times = np.arange(16000)[:, None] / 8000
    values = 0.3 * np.sin(2 * np.pi * (220 + 110 * np.arange(channels)) * times)
    file = io.BytesIO()
    soundfile.write(file, values, 8000, format=format)
    return file.getvalue()


def table(*rows: str) -> bytes:
    """Return a table of cells that ``|`` divides."""
    return "".join(row.replace("|", "\t") + "\n" for row in rows).encode()


def lines(*objects: dict[str, Any]) -> bytes:
    """Return a JSON object a line."""
    return "".join(json.dumps(one) + "\n" for one in objects).encode()


def parquet(columns: dict[str, list[Any]]) -> bytes:
    """Return a Parquet file."""
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def _fleurs(texts: list[str]) -> bytes:
    audio = [{"bytes": sound("FLAC"), "path": f"{number}.flac"} for number in range(len(texts))]
    return parquet({"id": list(range(len(texts))), "audio": audio, "raw_transcription": texts})


def _cut(channel: int) -> dict[str, Any]:
    source = {"type": "file", "channels": [0, 1], "source": "a.wav"}
    said = {"id": f"s{channel}", "start": 0.0, "duration": 1.0, "channel": channel, "text": "Hi.", "language": "en"}
    recording = {"id": "a", "sources": [source], "sampling_rate": 8000, "num_samples": 16000, "duration": 2.0}
    cut = {"type": "MonoCut", "id": f"c{channel}", "start": 0.5, "duration": 1.0, "channel": channel}
    return cut | {"supervisions": [said], "recording": recording}


def layouts() -> dict[str, Layout]:
    """Return a corpus for each reader, by its name."""
    wav, flac, stereo = sound(), sound("FLAC"), sound(channels=2)
    pair = {"source_language": "en", "target_language": "de"}
    yaml = b"- {duration: 0.75, offset: 0.25, speaker_id: spk.1, wav: t.wav}\n"
    yaml += b"- {duration: 0.5, offset: 1.0, speaker_id: spk.1, wav: t.wav}\n"
    english, german = b"One.\nTwo.\n", b"Eins.\nZwei.\n"
    talk = "en-de/data/train/"
    texts = {f"{talk}txt/train.yaml": yaml, f"{talk}txt/train.en": english, f"{talk}txt/train.de": german}
    test = '<refset setid="x" trglang="de">\n<doc docid="d" sysid="r">\n<seg id="1"> %s </seg>\n</doc>\n</refset>\n'
    xml = '<dataset id="x"><doc id="d"><src lang="en"><p><seg id="1">One.</seg></p></src><ref lang="de" translator="A">'
    xml += '<p><seg id="1">Eins.</seg></p></ref></doc></dataset>'
    tags = b"<url>x</url>\n<talkid>1</talkid>\nOne.\nTwo.\n"
    sentence = "common_voice_en_1.mp3"
    nemo = {"audio_filepath": "a.wav", "offset": 0.5, "duration": 1.0, "text": "Hallo.", "channel_selector": 1}
    nemo |= {"source_lang": "en", "target_lang": "de"}
    units = "id|audio|n_frames|tgt_text|speaker"
    return {
        "tsv": Layout(
            {
                "train.tsv": table(
                    "id|audio|start|duration|source_text|channel", "a|a.wav|0|1|Hi.|1", "b|a.wav|||Ho.|"
                ),
                "test.tsv": table("id|source_text|target_text", 'x|"He said ""a"""|Eins.', "y|b|Zwei."),
                "a.wav": stereo,
            },
            lambda root: Tsv(root=root, **pair),
        ),
        "fairseq_s2t": Layout(
            {"train.tsv": table(units, 'a|a.wav|9|Say \\"a\\".|x', "b|a.wav:0:8000|8|b|y"), "a.wav": wav},
            lambda root: FairseqS2T(root=root, **pair),
        ),
        "nemo": Layout({"train.json": lines(nemo, nemo), "a.wav": stereo}, lambda root: Nemo(root=root, **pair)),
        "lhotse": Layout(
            {"cuts_train.jsonl": lines(_cut(0), _cut(1)), "a.wav": stereo},
            lambda root: Lhotse(root=root, source_language="en"),
        ),
        "kaldi": Layout(
            {
                "train/wav.scp": b"a {root}/a.wav\nb sph2pipe -f wav -p -c 2 {root}/a.wav |\n",
                "train/segments": b"a_1 a 0.0 1.0\na_2 a 1.0 1.5 1\nb_1 b 0 -1\n",
                "train/text.en": b"a_1 One.\na_2 Two.\nb_1 Three.\n",
                "train/utt2spk": b"a_1 a\na_2 a\nb_1 b\n",
                "train/reco2file_and_channel": b"a a A\n",
                "a.wav": stereo,
            },
            lambda root: Kaldi(root=root, source_language="en", audio_root=str(root)),
        ),
        "mustc": Layout({**texts, f"{talk}wav/t.wav": wav}, lambda root: MustC(root=root)),
        "mtedx": Layout({**texts, f"{talk}wav/t.flac": flac}, lambda root: MTedx(root=root, **pair)),
        "covost2": Layout(
            {
                "en/validated.tsv": table("client_id|path|sentence", f"x|{sentence}|One."),
                "en/covost_v2.en_de.tsv": table("path|translation|split", f"{sentence}|Eins.|train"),
                f"en/clips/{sentence}": sound("MP3"),
            },
            lambda root: CoVoST2(root=root, splits=["train"], **pair),
        ),
        "europarl_st": Layout(
            {
                "en/de/dev/segments.lst": b"s 0.0 1.0\ns 1.0 2.0\n",
                "en/de/dev/segments.en": english,
                "en/de/dev/segments.de": german,
                "en/de/dev/speeches.lst": b"s\n",
                "en/de/dev/speakers.lst": b"ann\n",
                "en/audios/s.flac": flac,
            },
            lambda root: EuroparlST(root=root, **pair),
        ),
        "librispeech": Layout(
            {"dev-clean/1/2/1-2.trans.txt": b"1-2-0 ONE\n1-2-1 TWO\n", "dev-clean/1/2/1-2-0.flac": flac}
            | {"dev-clean/1/2/1-2-1.flac": flac},
            lambda root: LibriSpeech(root=root),
        ),
        "librilight": Layout(
            {"small/1/b/f.json": json.dumps({"voice_activity": [[0.1, 1.5]]}).encode(), "small/1/b/f.flac": flac},
            lambda root: LibriLight(root=root, held_out=0),
        ),
        "fleurs": Layout(
            {
                "en_us/train/0000.parquet": _fleurs(["One.", "Two."]),
                "de_de/train/0000.parquet": _fleurs(["Eins.", "Zwei."]),
            },
            lambda root: Fleurs(root=root, **pair),
        ),
        "parquet": Layout(
            {
                "train-00000-of-00001.parquet": parquet(
                    {"audio": [flac, wav], "sentence": ["One.", "Two."], "translation": ["Eins.", "Zwei."]}
                )
            },
            lambda root: Parquet(root=root, **pair),
        ),
        "moses": Layout({"train.en": english, "train.de": german}, lambda root: Moses(root=root, **pair)),
        "monolingual": Layout({"train.en": english}, lambda root: Monolingual(root=root, language="en")),
        "wmt": Layout(
            {"n14-src.en.sgm": (test % "One.").encode(), "n14-ref.de.sgm": (test % "Eins.").encode()}
            | {"n21.en-de.xml": xml.encode()},
            lambda root: WMT(root=root, **pair),
        ),
        "iwslt": Layout(
            {"train.tags.en-de.en": tags, "train.tags.en-de.de": tags}, lambda root: IWSLT(root=root, **pair)
        ),
        "ted": Layout(
            {"all_talks_train.tsv": table("talk_name|en|de", "t|One.|Eins.", "t|Two.|__NULL__")},
            lambda root: Ted(root=root, **pair),
        ),
    }
