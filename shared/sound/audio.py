"""Reading sound: any rate, any channels, wav, flac, ogg or mp3, as mono float32 at 16 kHz; films by media.py.

Legend: N samples.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import check_regular
from dragoman.shared.machine.remote import on_disk, uri_of
from dragoman.shared.sound.channels import Mix, mono, split_channel
from dragoman.shared.sound.media import MediaSound, is_media
from dragoman.shared.sound.mpeg import naming_damage
from dragoman.shared.sound.shards import member_of, open_sound, place_in_shard

if TYPE_CHECKING:
    import soundfile

    Sound: TypeAlias = "soundfile.SoundFile | MediaSound"

#: Samples a second of everything that this project computes with.
SAMPLE_RATE = 16000

#: Seconds by which a segment may run past the end of its file; it is then cut there. Published segmentations are
#: rounded, and mp3 encoders drop or add a frame (26 ms at 44.1 kHz); anything beyond is a mistake in the corpus.
END_TOLERANCE = 0.05

#: Formats whose length stands in the header and follows from the file's size; others are decoded to learn it.
_UNCOMPRESSED = ("WAV", "WAVEX", "RF64", "W64", "AIFF", "AU")

#: Samples that cannot fail in decoding, nor be infinite or not a number.
_PLAIN = ("PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "ULAW", "ALAW")

#: Samples decoded and thrown away before a segment. An mp3 frame borrows bits from up to nine before it, and a decoder
#: that starts in the middle fills them with nothing (measured: errors of 0.6 after 4 frames of 1152, none after 7).
#: A block of Vorbis overlaps with the one before it, and has at most 8192 samples. Opus wants 80 ms (RFC 7845, section
#: 4.6), here at up to 48 kHz; the noise that it makes up by itself (0.002 at most) depends on where decoding began.
_WARM_UP = {"MPEG_LAYER_III": 20 * 1152, "VORBIS": 2 * 8192, "OPUS": 2 * 3840}

#: Hz; at a lower rate, a small file would become a large one.
LOWEST_RATE = 1000

#: Rates that have next to nothing in common with 16 kHz (44,101 Hz) need filters that fill the memory. All rates that
#: sound cards have are far below.
LARGEST_FILTER = 1 << 24

#: Samples of a channel that a byte of a file can stand for: silence in FLAC has up to 65,535 in 11 bytes, in Vorbis and
#: Opus up to 4,096 in 2. A header that announces more lies, or does not know the number (0 in FLAC).
MOST_IN_A_BYTE = 8192

#: Seconds (31 years): a later start or a longer duration is no time in a recording, and too large to count samples.
LATEST = 1e9

_PADDING = 16  # bytes at the end that a writer may have counted and not written
_SIZES = re.compile(r"^ *(?:SSND|Data Size|riff|Riff size) *: *(\d+) \(should be (\d+)\)", re.MULTILINE)
_ROUNDING = 1e-6  # seconds by which sums of decimal fractions differ
_BLOCK = 1 << 18
_FULL_SCALE = 1 - 2.0**-15  # the largest sample of 16 bits
_OGG_PAGE = 65307  # bytes of the longest page
_STREAMED = 0x7FFF0000  # a RIFF size from here on means that the writer did not know it


def samples(seconds: float, rate: int = SAMPLE_RATE) -> int:
    """Return how many samples ``seconds`` are: the nearest number, halves upwards. Nothing else may round seconds."""
    return math.floor(seconds * rate + 0.5)


def samples_of(seconds: np.ndarray, rate: int = SAMPLE_RATE) -> np.ndarray:
    """Return :func:`samples` of each of many durations, int64."""
    return np.floor(seconds * rate + 0.5).astype(np.int64)


def read_audio(path: str | Path, start: float = 0.0, duration: float | None = None) -> np.ndarray:
    """Read a file or a segment of it; only the segment is decoded.

    The channel that ``path`` names is read, or the mean of all (shared/sound/channels.py). Other rates are resampled
    with torchaudio's windowed sinc; a segment is resampled by itself, as if silence surrounded it.

    Args:
        path: a file that libsndfile or FFmpeg reads, also by URI, or its place in a shard (see shared/sound/shards.py).
        start: seconds from the beginning of the file.
        duration: seconds; None means to the end.

    Returns:
        (N,) float32 in [-1, 1] at 16 kHz; N is ``samples(duration)``, or less where the file ends up to
        ``END_TOLERANCE`` earlier.

    Raises:
        DataError: if the file is missing, unreadable, empty or cut off, or the segment does not lie within it.
    """
    _check_segment(path, start, duration)
    with naming_damage(path), open_audio(path) as sound:
        rate, total = sound.samplerate, sound.frames
        if duration is None:
            _check_whole(path, sound)
            end = total
        else:
            _check_end(path, start, duration, total / rate)
            end = min(math.ceil((start + duration) * rate), total)
        first = samples(start, rate)
        if first >= end:
            raise DataError(f"{path}: nothing at {start:g} s (the file has {total / rate:.3f} s)")
        values = _read(path, sound, first, end - first)
    waveform = mono(path, values)
    if rate != SAMPLE_RATE:
        waveform = _resample(waveform, rate)
    if duration is not None:
        waveform = waveform[: samples(duration)]
    if not np.isfinite(waveform).all():
        raise DataError(f"{path}: not a number among the samples at {start:g} s")
    return np.clip(waveform, -1.0, 1.0)


def probe(path: str | Path) -> float:
    """Return the length of a file in seconds; compressed files are decoded, so that a broken one is found here.

    Raises:
        DataError: if the file is missing, unreadable, empty or cut off, or a sample is not a number.
    """
    return _survey(path, Mix(), mixed=False)


def probe_mix(path: str | Path) -> tuple[float, bool]:
    """Return the length of a file in seconds, and whether its channels cancel in their mean, if that is what is read.

    Raises:
        DataError: as :func:`probe`.
    """
    mix = Mix()
    return _survey(path, mix, mixed=split_channel(path)[1] is None), mix.cancels


def _survey(path: str | Path, mix: Mix, *, mixed: bool) -> float:
    """Return the length of a file; with ``mixed``, several channels are decoded and added to ``mix``."""
    with naming_damage(path), open_audio(path) as sound:
        _check_whole(path, sound)
        mixed = mixed and sound.channels > 1
        if sound.format in _UNCOMPRESSED and sound.subtype in _PLAIN and not mixed:
            return sound.frames / sound.samplerate
        decoded = 0
        while len(block := _decode(path, sound, _BLOCK)):
            finite = np.isfinite(block).reshape(len(block), -1).all(axis=1)
            if not finite.all():
                seconds = (decoded + int(finite.argmin())) / sound.samplerate
                raise DataError(f"{path}: not a number among the samples at {seconds:.2f} s")
            decoded += len(block)
            if mixed:
                mix.add(block)
        if decoded < sound.frames - END_TOLERANCE * sound.samplerate:
            raise DataError(f"{path}: cut off: {sound.frames} samples announced, {decoded} decoded")
        return decoded / sound.samplerate


def probe_header(path: str | Path) -> tuple[int, int]:
    """Return the sampling rate and the number of samples that the header of a sound file announces.

    Raises:
        DataError: if the file is missing or unreadable.
    """
    with open_audio(path) as sound:
        return sound.samplerate, sound.frames


@dataclass(frozen=True)
class Levels:
    """The loudness of a segment.

    Attributes:
        peak: the largest absolute sample of a channel, 1 at full scale; NaN if a sample is not a number.
        mono: the same of the channel or the mean that is read.
        full: the share of samples at full scale.
        cancelled: whether the channels cancel in the mean that is read.
    """

    peak: float
    mono: float
    full: float
    cancelled: bool


def levels(path: str | Path, start: float, duration: float) -> Levels:
    """Decode a segment at the file's own rate, a part at a time, and return how loud it is.

    Raises:
        DataError: if it cannot be read.
    """
    peak, peak_of_mono, full, decoded, mix = 0.0, 0.0, 0, 0, Mix()
    channel = split_channel(path)[1]
    with naming_damage(path), open_audio(path) as sound:
        first = samples(start, sound.samplerate)
        end = min(first + samples(duration, sound.samplerate), sound.frames)
        for begin in range(first, end, _BLOCK):
            block = _read(path, sound, begin, min(_BLOCK, end - begin))
            block = block if channel is None else block[:, channel : channel + 1]
            mix.add(block)
            peak = float(np.maximum(peak, np.abs(block).max()))  # NaN stays NaN
            peak_of_mono = float(np.maximum(peak_of_mono, np.abs(block.mean(axis=1)).max()))
            full += int((np.abs(block) >= _FULL_SCALE).sum())
            decoded += block.size
    return Levels(peak, peak_of_mono, full / max(decoded, 1), mix.cancels)


def clip_duration(
    path: str | Path, start: float, duration: float | None, length: float, tolerance: float = END_TOLERANCE
) -> float:
    """Return the duration of a segment in a file of ``length`` seconds, cut at the end within ``tolerance`` seconds.

    Raises:
        DataError: if the segment is empty or does not lie within the file.
    """
    _check_segment(path, start, duration)
    if start >= length:
        raise DataError(f"{path}: nothing at {start:g} s (the file has {length:.3f} s)")
    if duration is None:
        return length - start
    past = start + duration - length
    if past > tolerance + _ROUNDING:
        # Rounded up, so that what is proposed is enough.
        enough = math.ceil(1000 * (past - _ROUNDING)) / 1000
        advice = f"; --end-tolerance {enough:g} cuts it there" if past < duration / 2 else ""
        raise DataError(f"{_past_end(path, start, duration, length)} by {past:.3f} s{advice}")
    return float(min(duration, length - start))


def _check_segment(path: str | Path, start: float, duration: float | None) -> None:
    if not 0 <= start <= LATEST:
        raise DataError(f"{path}: a segment cannot start at {start} s")
    if duration is not None and not (0 < duration <= LATEST and samples(duration) > 0):
        raise DataError(f"{path}: the segment at {start:g} s has a duration of {duration} s")


def _check_end(path: str | Path, start: float, duration: float, length: float) -> None:
    if start + duration > length + END_TOLERANCE:
        raise DataError(_past_end(path, start, duration, length))


def _past_end(path: str | Path, start: float, duration: float, length: float) -> str:
    return f"{path}: the segment {start:.3f} to {start + duration:.3f} s runs past the end ({length:.3f} s)"


def open_audio(path: str | Path) -> Sound:
    """Open a sound file, whose samples the caller reads at the file's own rate.

    Raises:
        DataError: if it is missing, unreadable or empty, or its header cannot be true.
    """
    file, channel = split_channel(path)
    sound: Sound = MediaSound(on_disk(file)) if is_media(file) else _sound_file(file)
    wrong = None
    size = _size(path)
    if sound.frames <= 0:
        wrong = f"holds no samples ({size} bytes)"
    elif sound.frames > MOST_IN_A_BYTE * size:
        wrong = f"{sound.frames} samples announced, which {size} bytes cannot hold"
    elif sound.samplerate < LOWEST_RATE or _filter_size(sound.samplerate) > LARGEST_FILTER:
        wrong = f"a sampling rate of {sound.samplerate} Hz, which cannot be resampled here"
    elif channel is not None and channel >= sound.channels:
        wrong = f"there is no channel {channel}: it has {sound.channels}, counted from 0"
    if wrong is not None:
        sound.close()
        raise DataError(f"{path}: {wrong}")
    return sound


def _sound_file(path: str | Path) -> soundfile.SoundFile:
    import soundfile

    inside, uri = (place_in_shard(path) or member_of(path)) is not None, uri_of(path)
    path = on_disk(path)
    if not inside and uri is None:
        check_regular(path, "sound file")
    try:
        if inside:
            return soundfile.SoundFile(open_sound(path))
        if uri is not None:
            from dragoman.shared.sound.remote_sound import RemoteSound

            return RemoteSound(uri)
        return soundfile.SoundFile(os.fsencode(path))  # soundfile cannot encode every name
    except soundfile.LibsndfileError as error:
        if not inside and uri is None and not os.path.isfile(path):
            raise DataError(f"{path}: there is no such sound file") from error
        raise DataError(f"{path}: not readable as sound ({_size(path)} bytes; {error.error_string})") from error


def _size(path: str | Path) -> int:
    """Return the size of a sound file in bytes."""
    with open_sound(path) as file:
        return file.seek(0, os.SEEK_END)


def _check_whole(path: str | Path, sound: Sound) -> None:
    """Refuse a file that was cut off; libsndfile reads what is there and is silent about the rest."""
    size = _size(path)
    if sound.format == "OGG" and not _last_pages(path)[1]:
        raise DataError(f"{path}: cut off: the last of its {size} bytes are not those of a last page")
    for announced, there in _SIZES.findall(getattr(sound, "extra_info", "")):
        if int(there) + _PADDING < int(announced) < _STREAMED:
            raise DataError(f"{path}: cut off: {announced} bytes announced, {there} there")
    if sound.format not in ("WAV", "WAVEX"):
        return
    with open_sound(path) as file:
        file.seek(12)
        while len(header := file.read(8)) == 8:
            announced = int.from_bytes(header[4:], "little")
            if header[:4] == b"data":
                there = size - file.tell()
                if there < announced < _STREAMED:
                    raise DataError(f"{path}: cut off: {announced} bytes of samples announced, {there} there")
                return
            file.seek(announced + announced % 2, 1)


def _last_pages(path: str | Path) -> tuple[int, int]:
    """Return where the last two pages of an ogg file end, in samples; 0 for one that is not there or not the last."""
    with open_sound(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 2 * _OGG_PAGE))
        tail = file.read()
    page = tail.rfind(b"OggS")
    before = tail.rfind(b"OggS", 0, max(page, 0))
    whole = page >= 0 and len(tail) >= page + 14 and tail[page + 5] & 4
    ends = [int.from_bytes(tail[place + 6 : place + 14], "little", signed=True) for place in (before, page)]
    return max(ends[0], 0) if before >= 0 else 0, max(ends[1], 0) if whole else 0


def _read(path: str | Path, sound: Sound, first: int, count: int) -> np.ndarray:
    """Decode ``count`` samples from ``first`` on: (count, channels) float32; a few may be missing at the end.

    It is what decoding the whole file gives there. All is decoded in one go, as soundfile seeks after each reading.
    """
    import soundfile

    entry = _entry(path, sound, first)
    try:
        if entry != sound.tell():
            sound.seek(entry)
    except soundfile.LibsndfileError as error:
        raise DataError(f"{path}: cannot be read from sample {first} on ({error.error_string})") from error
    values = _decode(path, sound, first - entry + count)[first - entry :]
    if len(values) < count - END_TOLERANCE * sound.samplerate or not len(values):
        raise DataError(f"{path}: cut off: {count} samples requested from sample {first}, {len(values)} decoded")
    return values


def _entry(path: str | Path, sound: Sound, first: int) -> int:
    """Return the sample at which decoding has to begin for the samples from ``first`` on to be right."""
    if sound.format == "OGG" and sound.subtype != "OPUS":
        # libsndfile's seek lands elsewhere on the last page of Vorbis: that is entered from the page before.
        before, end = _last_pages(path)
        stated = sound.subtype == "VORBIS" and end == sound.frames
        first = min(first, before) if stated else 0
    return max(0, first - _WARM_UP.get(sound.subtype, 0))


def _decode(path: str | Path, sound: Sound, count: int) -> np.ndarray:
    import soundfile

    try:
        return sound.read(count, dtype="float32", always_2d=True)
    except MemoryError as error:
        raise DataError(f"{path}: {count} samples of {sound.channels} channels do not fit into the memory") from error
    except soundfile.LibsndfileError as error:
        raise DataError(f"{path}: broken sound after sample {sound.tell()} ({error.error_string})") from error


def _resample(waveform: np.ndarray, rate: int) -> np.ndarray:
    import torch

    with torch.autocast("cpu", enabled=False):  # which may be on for the model that reads the sound
        return _resampler(rate)(torch.from_numpy(np.ascontiguousarray(waveform))).numpy()


def _filter_size(rate: int) -> int:
    """Return about how many numbers the filter to resample from a rate has: a row for each phase of the two rates."""
    shared = math.gcd(rate, SAMPLE_RATE)
    return (SAMPLE_RATE // shared) * (rate // shared)


@lru_cache(maxsize=16)
def _resampler(rate: int) -> Any:
    """Return torchaudio's resampler (the module form of ``functional.resample``, which keeps its filter)."""
    from torchaudio.transforms import Resample

    return Resample(rate, SAMPLE_RATE)
