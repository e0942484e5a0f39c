"""Segments at pauses: known pauses by hand, the cheapest cuts by trying all, their properties, hours in blocks."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.sound import pauses
from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio, samples
from dragoman.shared.sound.pauses import best_cuts, file_segments, segments
from dragoman.shared.sound.speech_spans import stretches, trimmed
from tests.small import examples, refuses


def bursts(*parts, rate=SAMPLE_RATE):
    """Tones of (seconds, amplitude), one after the other."""
    return np.concatenate(
        [a * np.sin(2 * np.pi * 440 * np.arange(round(s * rate)) / rate).astype(np.float32) for s, a in parts]
    )


#: Nothing is left out: what divides is the longest segment.
WHOLE = {"margin": math.inf, "longest_pause": math.inf}


def cuts_of(found):
    return [start for start, _ in found[1:]]


def test_a_short_file_is_left_alone():
    wave = bursts((9, 0.5), (2, 0), (9, 0.5))
    assert segments(wave) == [(0.0, 20.0)]  # exactly the maximum
    assert segments(wave, maximum=math.inf) == [(0.0, 20.0)]
    assert len(segments(np.append(wave, np.float32(0)))) == 2
    assert segments(wave[:0]) == [(0.0, 0.0)]


def test_cuts_are_in_the_middle_of_the_only_pauses():
    wave = bursts((7, 0.5), (0.4, 0), (8, 0.5), (0.6, 0), (6, 0.5))
    assert cuts_of(segments(wave, maximum=10, **WHOLE)) == pytest.approx([7.2, 15.7], abs=0.05)


def test_of_two_pauses_the_quieter_and_of_equal_ones_the_longer():
    quieter = bursts((4, 0.5), (0.5, 0.01), (4, 0.5), (0.5, 0.001), (4, 0.5))
    assert cuts_of(segments(quieter, maximum=10, **WHOLE)) == pytest.approx([8.75], abs=0.2)
    swapped = bursts((4, 0.5), (0.5, 0.001), (4, 0.5), (0.5, 0.01), (4, 0.5))
    assert cuts_of(segments(swapped, maximum=10, **WHOLE)) == pytest.approx([4.25], abs=0.2)
    longer = bursts((4, 0.5), (0.3, 0), (4, 0.5), (1.0, 0), (4, 0.5))
    assert cuts_of(segments(longer, maximum=10, **WHOLE)) == pytest.approx([8.8], abs=0.03)


def test_a_cut_too_many_is_not_made():
    # One cut in the middle pause reaches, two in the outer ones are a little quieter: one more cut costs 3 dB.
    for decibels, expected in ((2, [8.25]), (5, [5.25, 11.25])):
        middle = 0.001 * 10 ** (decibels / 20)
        outer = [(0.5, 0.001), (2.5, 0.5)]
        wave = bursts((5, 0.5), *outer, (0.5, middle), *outer[::-1], (5, 0.5))
        assert cuts_of(segments(wave, maximum=10, **WHOLE)) == pytest.approx(expected, abs=0.2)
    # Two cuts in silence are better than one within the tone.
    wave = bursts((4, 0.5), (0.5, 0), (9, 0.5), (0.5, 0), (4, 0.5))
    assert cuts_of(segments(wave, maximum=10, **WHOLE)) == pytest.approx([4.25, 13.75], abs=0.03)


def test_a_pause_behind_a_loud_passage_is_found():
    # Sums that run from the file's beginning would have lost the difference between these two.
    wave = bursts((300, 1.0), (5, 1e-4), (0.3, 1e-5), (5, 1e-4), (5, 1.0))
    assert any(305 < cut < 305.3 for cut in cuts_of(segments(wave, maximum=12, **WHOLE)))


def test_without_pauses_it_is_cut_all_the_same():
    found = segments(bursts((61, 0.5)), maximum=20)
    assert sum(duration for _, duration in found) == pytest.approx(61)
    assert all(2 <= duration <= 20 for _, duration in found)
    assert len(segments(np.zeros(61 * SAMPLE_RATE, dtype=np.float32), maximum=20)) == 4


def test_a_segment_is_its_speech_and_a_margin():
    wave = bursts((2, 0), (1.5, 0.5), (0.8, 0), (2, 0.3), (0.3, 0), (1, 0.5), (4, 0.0))
    spoken = [(2.0, 3.5), (4.3, 7.6)]  # a pause of 0.3 s is within speech, one of 0.8 s is not
    for margin in (0.0, 0.1, 0.2):
        found = segments(wave, maximum=5, margin=margin)
        assert [start for start, _ in found] == pytest.approx([a - margin for a, _ in spoken], abs=0.011)
        assert [start + length for start, length in found] == pytest.approx([b + margin for _, b in spoken], abs=0.011)
    finer = segments(wave, maximum=5, margin=0.0, longest_pause=0.2)
    assert [start for start, _ in finer] == pytest.approx([2.0, 4.3, 6.6], abs=0.011)
    # Margins end in the middle of a pause.
    wide = segments(wave, maximum=5, margin=3)
    assert wide[0][0] == 0.0 and sum(wide[0]) == wide[1][0] == pytest.approx(3.9, abs=0.011)


def test_what_is_too_long_is_cut_within_its_speech():
    wave = bursts((1, 0), (3, 0.5), (0.4, 0), (4, 0.5), (0.4, 0), (3, 0.5), (1.5, 0))
    found = segments(wave, maximum=5, margin=0.05)
    assert [start for start, _ in found] == pytest.approx([0.95, 4.35, 8.75], abs=0.02)
    assert [start + length for start, length in found] == pytest.approx([4.05, 8.45, 11.85], abs=0.02)
    only = segments(wave, maximum=5, margin=0.05, longest_pause=math.inf)
    assert only == found


def test_speech_is_told_from_noise_that_is_softer():
    parts = [(1, 0), (2, 0.3), (1, 0), (1.5, 0.2), (1, 0), (2, 0.03), (1, 0)]  # the last one is a voice from far away
    wave = bursts(*parts) + np.random.default_rng(0).normal(0, 0.003, 9 * SAMPLE_RATE + SAMPLE_RATE // 2)
    found = segments(wave, maximum=5, margin=0.0)
    assert [start for start, _ in found] == pytest.approx([1.0, 4.0, 6.5], abs=0.05)
    assert [start + length for start, length in found] == pytest.approx([3.0, 5.5, 8.5], abs=0.05)


def test_a_click_in_a_pause_is_no_speech():
    wave = bursts((2, 0.5), (3, 0), (2, 0.5))
    wave[int(3.5 * SAMPLE_RATE)] = 0.02  # 25 dB below the tones for a sample, 58 dB below them over 0.1 s
    assert [start for start, _ in segments(wave, maximum=4, margin=0.0)] == pytest.approx([0.0, 5.0], abs=0.011)


def test_what_levels_cannot_judge_is_kept():
    noise = np.random.default_rng(1).normal(0, 0.1, 61 * SAMPLE_RATE).astype(np.float32)
    for wave in (noise, 0 * noise):
        found = segments(wave, maximum=20)
        assert sum(duration for _, duration in found) == pytest.approx(61) and cuts_of(found) == cuts_of(
            segments(wave, maximum=20, **WHOLE)
        )
    # Silence is left out near speech; far from it, it is a segment, of which a detector says that nothing is spoken.
    far = bursts((3, 0.5), (60, 0), (3, 0.5))
    found = segments(far, maximum=50, margin=0.0)
    assert found[0] == (0.0, pytest.approx(3, abs=0.011)) and sum(found[-1]) == 66.0
    assert all(13 <= start and start + length <= 55 for start, length in found[1:-1]) and len(found) > 2


def spans(flags):
    """The runs of true flags, one flag after the other."""
    found = []
    for place, flag in enumerate(flags):
        if flag and place and flags[place - 1]:
            found[-1][1] = place + 1
        elif flag:
            found.append([place, place + 1])
    return found


@settings(max_examples=examples(100))
@given(flags=st.lists(st.booleans(), min_size=1, max_size=40), pause=st.integers(0, 6), margin=st.integers(0, 5))
def test_stretches_and_margins_by_a_loop(flags, pause, margin):
    joined = []
    for begin, end in spans(flags):
        if joined and begin - joined[-1][1] <= pause:
            joined[-1][1] = end
        else:
            joined.append([begin, end])
    found = stretches(np.array(flags), pause)
    assert [a for a, _ in found] + [len(flags)] == [0] + [b for _, b in found] and len(found) == max(len(joined), 1)
    for (a, b), (begin, end) in zip(found, joined, strict=False):
        assert a <= begin < end <= b
        kept = trimmed(np.array(flags), a, b, margin)
        assert kept == (max(a, begin - margin), min(b, end + margin))
    for (_, cut), (_, end), (begin, _) in zip(found, joined, joined[1:], strict=False):
        assert cut == (end + begin) // 2
    if not joined:
        assert trimmed(np.array(flags), 0, len(flags), margin) == (0, len(flags))


def cheapest(costs, longest, shortest):
    """Try all sets of cuts."""
    count = len(costs)
    found = []
    for number in range(count):
        for cuts in itertools.combinations(range(1, count), number):
            bounds = [0, *cuts, count]
            if all(shortest <= b - a <= longest for a, b in itertools.pairwise(bounds)):
                found.append(sum(costs[cut] for cut in cuts))
    return min(found)


@settings(max_examples=examples(60))
@given(costs=st.lists(st.integers(1, 9), min_size=7, max_size=11), shortest=st.integers(1, 2))
def test_no_cuts_are_cheaper(costs, shortest):
    costs = np.array(costs, dtype=np.float64)
    cuts = best_cuts(costs, longest=6, shortest=shortest)
    bounds = [0, *cuts, len(costs)]
    assert all(shortest <= b - a <= 6 for a, b in itertools.pairwise(bounds))
    assert sum(costs[cut] for cut in cuts) == cheapest(costs, 6, shortest)


@settings(max_examples=examples(60))
@given(
    parts=st.lists(st.tuples(st.floats(0.01, 4), st.sampled_from([0, 1e-3, 0.1, 0.9])), min_size=1, max_size=8),
    maximum=st.floats(1, 7),
    rate=st.sampled_from([8000, 11025, 16000]),
)
def test_segments_tile_the_waveform(parts, maximum, rate):
    wave = bursts(*parts, rate=rate)
    found = segments(wave, maximum=maximum, rate=rate, **WHOLE)
    ends = [0]
    for start, duration in found:
        assert samples(start, rate) == ends[-1] and 0 < duration <= maximum
        ends.append(ends[-1] + samples(duration, rate))
    assert ends[-1] == len(wave)
    assert len(found) == 1 or min(duration for _, duration in found) >= 0.099 * maximum - 0.02
    assert segments(wave.copy(), maximum=maximum, rate=rate, **WHOLE) == found
    shown = segments(wave, maximum=maximum, rate=rate)
    assert all(0 < duration <= maximum for _, duration in shown)
    times = [time for start, duration in shown for time in (start, start + duration)]
    assert times[0] >= 0 and samples(times[-1], rate) <= len(wave)
    assert all(samples(a, rate) <= samples(b, rate) for a, b in itertools.pairwise(times))


@pytest.mark.parametrize(("suffix", "rate"), [("wav", 16000), ("flac", 44100), ("ogg", 22050), ("mp3", 44100)])
def test_a_file_is_divided_like_its_waveform_and_nothing_is_lost(tmp_path, suffix, rate):
    mono = bursts((4, 0.5), (0.5, 0.001), (4, 0.3), (0.7, 0.0), (3, 0.5), rate=rate)
    soundfile.write(tmp_path / f"a.{suffix}", np.stack([mono, 0.5 * mono], axis=1), rate)
    found = file_segments(tmp_path / f"a.{suffix}", maximum=5, **WHOLE)
    assert cuts_of(found) == pytest.approx(cuts_of(segments(0.75 * mono, maximum=5, rate=rate, **WHOLE)), abs=0.06)
    pieces = [read_audio(tmp_path / f"a.{suffix}", start, duration) for start, duration in found]
    whole = read_audio(tmp_path / f"a.{suffix}")
    assert abs(sum(map(len, pieces)) - len(whole)) <= len(found)
    if rate == SAMPLE_RATE:
        np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_blocks_make_no_difference(monkeypatch, tmp_path):
    wave = bursts((3, 0.5), (0.2, 0), (3, 0.2), (0.3, 0.01), (3, 0.9), (0.013, 0.2))
    soundfile.write(tmp_path / "a.wav", wave, SAMPLE_RATE, subtype="FLOAT")
    whole = segments(wave, maximum=4)
    for frames in (1, 7, 10000):
        monkeypatch.setattr(pauses, "_BLOCK_FRAMES", frames)
        assert segments(wave, maximum=4) == whole == file_segments(tmp_path / "a.wav", maximum=4)


def test_an_hour_in_little_memory(tmp_path):
    rate = 4000
    minute = bursts(*[(14.5, 0.5), (0.5, 0)] * 4, rate=rate)
    with soundfile.SoundFile(tmp_path / "hour.wav", "w", rate, 1) as file:
        for _ in range(60):
            file.write(minute)
    read_audio(tmp_path / "hour.wav", 0, 1)  # what is imported at first use is not counted
    tracemalloc.start()
    found = file_segments(tmp_path / "hour.wav", **WHOLE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60e6  # 14.4 million samples are 58 MB of float32, 115 MB of float64
    assert found[-1][0] + found[-1][1] == pytest.approx(3600)
    assert cuts_of(found) == pytest.approx([15 * n - 0.25 for n in range(1, 240)], abs=0.05)


@pytest.mark.parametrize("maximum", [0.5, 0, -1, math.nan])
def test_an_impossible_maximum(maximum):
    refuses(UsageError, str(maximum), segments, bursts((2, 0.5)), maximum=maximum)


@pytest.mark.parametrize("name", ["margin", "longest_pause"])
@pytest.mark.parametrize("value", [-0.1, math.nan])
def test_an_impossible_margin_or_pause(tmp_path, name, value):
    wave = bursts((2, 0.5))
    soundfile.write(tmp_path / "a.wav", wave, SAMPLE_RATE)
    for divide, item in ((segments, wave), (file_segments, tmp_path / "a.wav")):
        refuses(UsageError, f"at least 0 seconds, not {value}", divide, item, **{name: value})


def test_what_is_not_a_number_is_named_with_its_time(tmp_path):
    wave = bursts((25, 0.5))
    wave[int(21.5 * SAMPLE_RATE)] = np.nan
    soundfile.write(tmp_path / "a.wav", wave, SAMPLE_RATE, subtype="FLOAT")
    refuses(DataError, r"a\.wav: not a number .* 21\.50 s", file_segments, tmp_path / "a.wav")


def test_broken_files_are_named(tmp_path):
    (tmp_path / "empty.wav").write_bytes(b"")
    for name in ("empty.wav", "missing.wav"):
        refuses(DataError, name, file_segments, tmp_path / name)
