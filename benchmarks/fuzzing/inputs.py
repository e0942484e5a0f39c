"""Odd texts and sounds, as users give them to commands; and what stands in the place of a file."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path

import numpy as np
import soundfile

WORDS = "one two three four five six seven eight eins zwei drei vier the of a, b; x. 3,5 don't".split()
#: Pieces of lines: scripts without spaces, clusters, directions, what quotes, ends or hides, and what is no text.
PIECES = [
    "今日は良い天気です。", "我们在这里", "สวัสดีครับ", "ผมรักประเทศไทย", "می\u200cخواهم", "سلام دنیا",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea\U0001f1eb", "e\u0301\u0323" * 9, "\u0301" * 60,
    "\u202eabc\u202c", "\u200b\u2060", "\ufeff", "\u2028", "\x85", "\x1c\x1d", "\0", "\t", "\x0b\x0c", "\r",
    '"', '"" "', "'", "«", "\\", "\\n", "<unk>", "<s></s>", "<de>", "▁", "@@", "&amp;&quot;", "{}", "%s", "nan", "-1",
    "1e308", "9" * 400, "A" * 3000, "ab " * 900, "ﬁ①Å", "\U0010ffff", "\ufffe", "ß" * 20, "İ", "ǆ", " ", "\u00a0",
]  # fmt: skip
#: What is no UTF-8: a lone surrogate, cut characters, one in too many bytes, UTF-16.
NO_TEXT = [b"\xed\xa0\x80", b"\xed\xb3\xbf", b"\xc3", b"\xe4\xbb", b"\xc0\xaf", b"\xff\xfe", b"\xf4\x90\x80\x80"]
RATES = (1, 7, 100, 3999, 8000, 11025, 16000, 16001, 22050, 44100, 96000, 192000, 655350)
ENDINGS = ("wav", "wav", "wav", "flac", "flac", "ogg", "mp3", "aiff", "au", "caf", "w64")
#: What begins files that are given as raw samples.
HEADERS = [b"RIFF\xff\xff\xff\xffWAVEfmt ", b"fLaC\0\0\0\x22", b"OggS\0\2", b"ID3\4\0\0", b"\xff\xfb\x90\x64", b"\xff"]
HEADERS += [b"FORM\0\0\0\0AIFF", b"\0\0\0\x20ftypM4A ", b".snd", b"\x1aE\xdf\xa3", b"NIST_1A\n   1024\n", b"caff\0\1"]
#: What stands in the place of a file. A pipe as a text is waited for, as ``<(command)`` needs it, so it is for sounds.
SPECIAL = ("folder", "loop", "nothing", "pipe")


def words(rng: random.Random, count: int) -> str:
    """Return a line of usual words."""
    return " ".join(rng.choice(WORDS) for _ in range(count))


def text(rng: random.Random) -> bytes:
    """Return a text of up to a dozen lines."""
    found = []
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 12))):
        kind = rng.random()
        line = "" if kind < 0.15 else words(rng, rng.randrange(1, 9))
        if kind > 0.5:
            pieces = [line, *rng.choices(PIECES, k=rng.choice((1, 1, 2, 5)))]
            rng.shuffle(pieces)
            line = rng.choice((" ", "")).join(pieces).replace("\n", "")
        found.append(line)
    content = "".join(line + rng.choice(("\n", "\n", "\n", "\r\n")) for line in found).encode()
    if rng.random() < 0.2:
        content = content.rstrip(b"\n")
    if rng.random() < 0.1:
        content = b"\xef\xbb\xbf" + content
    if rng.random() < 0.05:
        place = rng.randrange(len(content) + 1)
        content = content[:place] + rng.choice(NO_TEXT) + content[place:]
    if rng.random() < 0.02:
        content += b"x" * rng.choice((3000, 3 * 10**6))
    return content


def waveform(rng: random.Random, rate: int, channels: int) -> np.ndarray:
    """Return samples (N, channels): bursts as of speech, noise, silence, or numbers that no microphone gives."""
    count = rng.choice((0, 1, 2, 159, 400, 8000, 16000, 40000, 100_000))
    noise = np.random.default_rng(rng.randrange(2**32))
    values = noise.normal(0, 0.1, (count, channels)) * (np.sin(np.arange(count) / max(rate, 8) * 6) > 0)[:, None]
    kind = rng.randrange(16)
    if kind < 3 and count:
        values[noise.integers(count, size=3)] = (np.nan, np.inf, 1e30)[kind]
    elif kind == 3:
        values *= 0
    elif kind == 4:
        values = np.ones_like(values) * rng.choice((1, -1, 5))
    elif kind == 5:
        values[:] = np.nan
    elif kind < 12:
        values = np.repeat(_vowels(count, rate)[:, None], channels, axis=1)
    return values


def _vowels(count: int, rate: int) -> np.ndarray:
    """Return what detectors take for speech: a pitch that moves, with harmonics, louder and softer, and pauses."""
    seconds = np.arange(count) / rate
    phase = 2 * np.pi * np.cumsum(120 + 60 * np.sin(2 * np.pi * 2.5 * seconds)) / rate
    loudness = np.abs(np.sin(2 * np.pi * 2.5 * seconds)) * (seconds % 2 < 1.2)
    return loudness * sum(np.sin(number * phase) / number for number in range(1, 20)) / 4


def sound(rng: random.Random) -> tuple[str, bytes]:
    """Return the ending of a sound file's name, and its content, which may be broken."""
    ending, rate, channels = rng.choice(ENDINGS), rng.choice((16000, rng.choice(RATES))), rng.choice((1, 1, 1, 2, 3, 8))
    if ending in ("ogg", "mp3"):  # whose encoders end the process at much else
        rate, channels, values = 16000, 1, _vowels(16000, 16000)
    else:
        values = waveform(rng, rate, channels)
    subtype = (
        rng.choice(("PCM_16", "FLOAT", "DOUBLE", "PCM_U8", "PCM_24", "ULAW")) if ending in ("wav", "w64") else None
    )
    if subtype == "ULAW":  # whose encoder looks outside its table, and ends the process
        values = np.clip(np.nan_to_num(values), -1, 1)
    file = io.BytesIO()
    try:
        soundfile.write(file, values, rate, format=ending, subtype=subtype)
    except (soundfile.SoundFileError, ValueError, TypeError, AssertionError):  # a format without such a rate
        file = io.BytesIO()
        soundfile.write(file, waveform(rng, 16000, 1), 16000, format="WAV")
    content = file.getvalue()
    kind = rng.random()
    if kind < 0.1:
        content = content[: rng.randrange(len(content) + 1)]
    elif kind < 0.2:
        place = rng.randrange(min(len(content), 80) + 1)
        content = content[:place] + rng.randbytes(rng.choice((1, 2, 4))) + content[place + 4 :]
    elif kind < 0.25:
        content = rng.randbytes(rng.choice((0, 1, 44, 5000)))
    if rng.random() < 0.1:
        ending = rng.choice(("WAV", "mp3", "txt", "wav", "mp4", "sph", "ogg", "gz"))
    return ending, content


def raw(rng: random.Random) -> bytes:
    """Return samples of 16 bits as from a microphone, or a file where they should be."""
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(HEADERS) + rng.randbytes(rng.choice((0, 1, 4000)))
    if kind < 0.3:
        return sound(rng)[1]
    values = np.nan_to_num(waveform(rng, 16000, 1)).clip(-1, 1) * 32767
    return values.astype("<i2").tobytes() + b"\1" * rng.choice((0, 0, 1))


def put(path: Path, content: bytes, rng: random.Random, special: float, kinds: tuple[str, ...] = SPECIAL[:3]) -> str:
    """Write a file, or with a probability what is none; return which, "" for a file."""
    kind = rng.choice(kinds) if rng.random() < special else ""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif not kind:
        path.write_bytes(content)
    return kind
