"""Numbers of recordings, with and without speech, that `dragoman translate` skips (docs/search.md).

    python -m benchmarks.silence --speech clips/ [--detectors levels silero] [--count 200] [--model MODEL]

Noise of each kind is drawn from a seed: 50 ms to 20 s long, at -90 to -6 dB of full scale, written and read as 16 bits.
docs/search.md says which of it the detectors were made with. --speech is a folder of sound files with speech, each of
which is heard as it is, and one in ten also softer and in noise. With the extra demo, eSpeak's words are heard. With
--model, the cost is set beside that of translating.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio
from dragoman.shared.sound.speech_activity import SpeechDetector, speech_detector
from dragoman.shared.systems.inputs import AUDIO_SUFFIXES
from dragoman.shared.systems.system import System

Noise = Callable[[np.random.Generator, int], np.ndarray]


def scaled(wave: np.ndarray) -> np.ndarray:
    """Return the wave with an effective value of 1."""
    power = np.sqrt(np.mean(np.square(wave)))
    return wave / power if power > 0 else wave


def times(count: int) -> np.ndarray:
    return np.arange(count) / SAMPLE_RATE


def between(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def coloured(power: float) -> Noise:
    """Return Gaussian noise whose power falls with this power of the frequency."""

    def noise(rng: np.random.Generator, count: int) -> np.ndarray:
        size = max(count, 16)
        frequencies = np.maximum(np.fft.rfftfreq(size, 1 / SAMPLE_RATE), 20)
        wave = np.fft.irfft(np.fft.rfft(rng.standard_normal(size)) * frequencies ** (-power / 2), size)
        return scaled(wave[:count])

    return noise


def at_random(rng: np.random.Generator, count: int, per_second: float) -> np.ndarray:
    """Return where something happens, at least once."""
    return rng.integers(0, count, 1 + rng.poisson(count / SAMPLE_RATE * per_second))


def silence(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.zeros(count)


def offset(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.ones(count)


def one_sample(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.ones(1)


def hum(rng: np.random.Generator, count: int) -> np.ndarray:
    mains = rng.choice([50, 60]) * (1 + 0.002 * rng.standard_normal())
    wave = sum(rng.random() / n * np.sin(2 * np.pi * (mains * n * times(count) + rng.random())) for n in range(1, 20))
    return scaled(wave) + 0.05 * rng.standard_normal(count)


def clicks(rng: np.random.Generator, count: int) -> np.ndarray:
    wave = np.zeros(count)
    places = at_random(rng, count, 3)
    wave[places] = rng.choice([-1, 1], len(places)) * rng.random(len(places))
    return wave / np.abs(wave).max()


def short(rng: np.random.Generator, count: int) -> np.ndarray:
    return coloured(rng.uniform(-1, 2))(rng, int(rng.integers(1, SAMPLE_RATE // 20)))


def dither(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.integers(-1, 2, count) / 32768


def modulated(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return noise that swells and fades as often as syllables do."""
    swell = 1 + np.sin(2 * np.pi * (rng.uniform(1, 8) * times(count) + rng.random()))
    return scaled(coloured(rng.uniform(0, 1))(rng, count) * swell)


def wind(rng: np.random.Generator, count: int) -> np.ndarray:
    return scaled(coloured(1.8)(rng, count) * np.exp(0.7 * coloured(2.5)(rng, count)))


def rain(rng: np.random.Generator, count: int) -> np.ndarray:
    wave = 0.3 * coloured(-0.3)(rng, count)
    places = at_random(rng, count, 200)
    wave[places] += 3 * rng.standard_normal(len(places))
    return scaled(wave)


def keyboard(rng: np.random.Generator, count: int) -> np.ndarray:
    wave = 0.02 * rng.standard_normal(count)
    for place in at_random(rng, count, 5):
        size = min(count - place, SAMPLE_RATE // 20)
        stroke = coloured(rng.uniform(-1, 1))(rng, size) * np.exp(-times(size) * rng.uniform(60, 300))
        wave[place : place + size] += 5 * rng.random() * stroke
    return scaled(wave)


def engine(rng: np.random.Generator, count: int) -> np.ndarray:
    turns = np.cumsum(rng.uniform(20, 120) * (1 + 0.02 * coloured(2)(rng, count))) / SAMPLE_RATE
    wave = sum(rng.random() * np.sin(2 * np.pi * (n * turns + rng.random())) / n**0.7 for n in range(1, 40))
    return scaled(wave) + 0.2 * coloured(1)(rng, count)


def narrow(rng: np.random.Generator, count: int) -> np.ndarray:
    size, centre = max(count, 16), rng.uniform(200, 4000)
    spectrum, frequencies = np.fft.rfft(rng.standard_normal(size)), np.fft.rfftfreq(size, 1 / SAMPLE_RATE)
    spectrum[(frequencies < 0.7 * centre) | (frequencies > 1.4 * centre)] = 0
    return scaled(np.fft.irfft(spectrum, size)[:count])


def tone(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.sin(2 * np.pi * (between(rng, 80, 4000) * times(count) + rng.random()))


def beeps(rng: np.random.Generator, count: int) -> np.ndarray:
    square = np.sign(np.sin(2 * np.pi * between(rng, 200, 2000) * times(count)))
    return square * (np.sin(2 * np.pi * rng.uniform(0.5, 3) * times(count)) > 0)


def sweep(rng: np.random.Generator, count: int) -> np.ndarray:
    low, high = between(rng, 60, 6000), between(rng, 60, 6000)
    return np.sin(2 * np.pi * np.cumsum(low * (high / low) ** np.linspace(0, 1, count)) / SAMPLE_RATE)


def siren(rng: np.random.Generator, count: int) -> np.ndarray:
    pitch = 700 + 300 * np.sin(2 * np.pi * rng.uniform(0.2, 4) * times(count))
    return np.sin(2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE)


def dialling(rng: np.random.Generator, count: int) -> np.ndarray:
    wave = np.zeros(count)
    for place in range(0, count, int(0.23 * SAMPLE_RATE)):
        part = times(min(count - place, int(0.15 * SAMPLE_RATE)))
        pair = rng.choice([697, 770, 852, 941]), rng.choice([1209, 1336, 1477, 1633])
        wave[place : place + len(part)] = sum(np.sin(2 * np.pi * pitch * part) for pitch in pair)
    return scaled(wave)


def birds(rng: np.random.Generator, count: int) -> np.ndarray:
    wave = 0.01 * rng.standard_normal(count)
    for place in at_random(rng, count, 4):
        size = min(count - place, int(SAMPLE_RATE * rng.uniform(0.03, 0.2)))
        pitch = rng.uniform(2000, 5000) * (1 + rng.uniform(-0.4, 0.4) * np.linspace(0, 1, size))
        wave[place : place + size] += np.sin(2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE) * np.hanning(size)
    return scaled(wave)


def piano(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return chords of decaying tones with harmonics."""
    wave, place = np.zeros(count), 0
    while place < count:
        step, root = int(SAMPLE_RATE * rng.uniform(0.1, 0.8)), between(rng, 80, 800)
        part = times(min(count - place, 4 * step))
        for ratio in rng.choice([1, 1.26, 1.5, 2], rng.integers(1, 4), replace=False):
            for n in range(1, rng.integers(2, 9)):
                decay = np.exp(-part * rng.uniform(1, 6) * n**0.5) * np.minimum(1, part * 200)
                wave[place : place + len(part)] += decay * np.sin(2 * np.pi * root * ratio * n * part) / n
        place += step
    return scaled(wave)


def violin(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return tones with vibrato and many harmonics."""
    wave, place = np.zeros(count), 0
    while place < count:
        part = times(min(count - place, int(SAMPLE_RATE * rng.uniform(0.2, 1.5))))
        pitch = between(rng, 180, 900)
        turns = pitch * part + 0.05 * np.sin(2 * np.pi * rng.uniform(4, 7) * part) * pitch / 300
        bow = np.hanning(len(part) + 2)[1:-1] ** 0.3
        wave[place : place + len(part)] = bow * sum(np.sin(2 * np.pi * n * turns) / n for n in range(1, 15))
        place += len(part)
    return scaled(wave)


#: Kinds that any recording may have, other noise, and what has a pitch and changes, as speech does.
KNOWN: dict[str, Noise] = {
    "digital silence": silence,
    "offset": offset,
    "one sample": one_sample,
    "below 50 ms": short,
    "white": coloured(0),
    "pink": coloured(1),
    "brown": coloured(2),
    "hum": hum,
    "clicks": clicks,
}
OTHERS: dict[str, Noise] = {
    "blue": coloured(-1),
    "violet": coloured(-2),
    "dither": dither,
    "modulated": modulated,
    "wind": wind,
    "rain": rain,
    "keyboard": keyboard,
    "engine": engine,
    "narrow band": narrow,
    "steady tone": tone,
    "beeps": beeps,
}
MUSIC: dict[str, Noise] = {
    "sweep": sweep,
    "siren": siren,
    "dialling": dialling,
    "birds": birds,
    "piano": piano,
    "violin": violin,
}


def as_written(wave: np.ndarray) -> np.ndarray:
    """Return what a file of 16-bit samples would hold."""
    return (np.rint(np.clip(wave, -1, 1) * 32767) / 32768).astype(np.float32)


def noises(kind: str, make: Noise, count: int) -> Iterator[np.ndarray]:
    """Yield recordings of a kind, the same ones each time."""
    rng = np.random.default_rng([*kind.encode()])
    for _ in range(count):
        size = int(SAMPLE_RATE * between(rng, 0.05, 20))
        wave = make(rng, size)
        # Dither is at its level by nature.
        yield as_written(wave if kind == "dither" else wave * 10 ** (rng.uniform(-90, -6) / 20))


def softened(wave: np.ndarray, decibels: float) -> np.ndarray:
    return as_written(scaled(wave) * 10 ** (decibels / 20))


def in_noise(wave: np.ndarray, decibels: float) -> np.ndarray:
    noise = coloured(1)(np.random.default_rng(len(wave)), len(wave))
    return as_written((scaled(wave) + noise * 10 ** (-decibels / 20)) * 10 ** (-20 / 20))


def changed(
    change: Callable[[np.ndarray, float], np.ndarray], files: list[Path], decibels: float
) -> Iterator[np.ndarray]:
    """Yield one in ten recordings, changed."""
    for file in files[::10]:
        yield change(read_audio(file), decibels)


def espeak(count: int) -> Iterator[np.ndarray]:
    """Yield words and sentences of Almanac in its four languages, by all of its voices, as Almanac writes them."""
    from dragoman.almanac import voices

    speaker = voices.Speaker()
    texts = {"en": ["yes", "ten", "a", "The train leaves at ten."], "de": ["ja", "zwei", "acht", "Der Zug fährt ab."]}
    texts |= {"fr": ["oui", "eau", "un", "Le train part."], "tr": ["bir", "su", "evet", "Tren kalkıyor."]}
    names = [*voices.SEEN_VOICES, *voices.UNSEEN_VOICES]
    for number in range(count):
        drawn = random.Random(number)
        language = drawn.choice([*texts])
        manner = voices.manner(language, names[number % len(names)], random.Random(number // 8), drawn)
        samples = speaker.speak(drawn.choice(texts[language]), manner)
        yield voices.pcm(voices.noisy(voices.at_rate(samples), drawn)).astype(np.float32) / 32768


def report(name: str, recordings: Iterator[np.ndarray], detectors: list[SpeechDetector]) -> np.ndarray:
    """Print how many recordings each detector takes for silence; return the numbers, of all in the first place."""
    counts = np.zeros(1 + len(detectors), dtype=int)
    for wave in recordings:
        counts += (1, *(not detector.has_speech(wave) for detector in detectors))
    shares = "".join(f"  {count:6} {count / counts[0]:8.2%}" for count in counts[1:])
    print(f"{name:26} {counts[0]:6}{shares}", flush=True)
    return counts


def table(title: str, parts: dict[str, Iterator[np.ndarray]], detectors: list[SpeechDetector]) -> None:
    print(f"\n{title:26} {'clips':>6}" + "".join(f"  skipped by {detector.name[:6]}" for detector in detectors))
    total = sum(report(name, recordings, detectors) for name, recordings in parts.items())
    if len(parts) > 1:
        print(f"{'together':26} {total[0]:6}" + "".join(f"  {n:6} {n / total[0]:8.2%}" for n in total[1:]))


def costs(files: list[Path], detectors: list[SpeechDetector], model: Path | None) -> None:
    """Print the CPU seconds that an hour of speech takes to listen to, in segments of 20 s, and to translate."""
    wave = np.concatenate([read_audio(file) for file in files[:400]])
    segments = [wave[start : start + 20 * SAMPLE_RATE] for start in range(0, len(wave), 20 * SAMPLE_RATE)]
    hours = len(wave) / SAMPLE_RATE / 3600
    for detector in detectors:
        started = time.process_time()
        for segment in segments:
            detector.has_speech(segment)
        print(f"{detector.name}: {(time.process_time() - started) / hours:.1f} CPU seconds for an hour of speech")
    if model is not None:
        system = System.load(model)
        started = time.process_time()
        system.hypotheses(files[:100], keep_silence=True, **languages(system))
        hours = sum(len(read_audio(file)) for file in files[:100]) / SAMPLE_RATE / 3600
        print(f"translating: {(time.process_time() - started) / hours:.1f} CPU seconds for an hour, with reading")


def languages(system: System) -> dict[str, str]:
    return {"source_language": system.source_languages[0], "target_language": system.target_languages[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speech", type=Path, required=True, help="folder of sound files with speech")
    parser.add_argument("--detectors", nargs="+", default=["levels", "silero"])
    parser.add_argument("--count", type=int, default=200, help="recordings of each kind")
    parser.add_argument("--model", type=Path, help="folder of a model that reads speech")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    detectors = [speech_detector(name) for name in arguments.detectors]
    files = sorted(file for file in arguments.speech.rglob("*") if file.suffix.lower() in AUDIO_SUFFIXES)
    if not files:
        parser.error(f"{arguments.speech}: holds no sound file")
    spoken = {"as they are": (read_audio(file) for file in files)}
    spoken |= {f"at {level} dB": changed(softened, files, level) for level in (-30, -40, -50)}
    spoken |= {f"{ratio} dB above pink noise": changed(in_noise, files, ratio) for ratio in (20, 10)}
    if find_spec("espeakng_loader") is not None:
        spoken["eSpeak"] = espeak(arguments.count * 2)
    print(f"\n{'speech':26} {'clips':>6}" + "".join(f"  skipped by {detector.name[:6]}" for detector in detectors))
    for name, recordings in spoken.items():
        report(name, recordings, detectors)
    for title, kinds in (("known noise", KNOWN), ("other noise", OTHERS), ("music and signals", MUSIC)):
        parts = {kind: noises(kind, make, arguments.count) for kind, make in kinds.items()}
        table(title, parts, detectors)
    print()
    costs(files, detectors, arguments.model)


if __name__ == "__main__":
    main()
