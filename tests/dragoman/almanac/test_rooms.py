"""Rooms decay as they say, microphones cut their band; both are drawn anew for each recording."""

import math

import numpy as np
import pytest

from dragoman.almanac import rooms
from dragoman.almanac.frames import randomness
from dragoman.almanac.rooms import Room

RATE = 16_000
ROOM = Room(reverberation=0.4, direct=6.0, lowest=100.0, highest=4000.0, seed=1)


def decibels(energy):
    return 10.0 * np.log10(energy)


def test_a_response_decays_by_sixty_decibels_in_its_time():
    late = ROOM.response(RATE)[80:]
    times = np.arange(len(late)) / RATE
    slopes = []
    for start, end in ((0.02, 0.1), (0.1, 0.2), (0.2, 0.3)):  # each by itself: it is exponential throughout
        part = (times >= start) & (times < end)
        blocks = (late[part] ** 2)[: part.sum() // 320 * 320].reshape(-1, 320).mean(1)
        middles = 0.02 * np.arange(len(blocks))
        slopes.append(np.polyfit(middles, decibels(blocks), 1)[0])
    assert np.mean(slopes) == pytest.approx(-60.0 / 0.4, rel=0.1)
    assert max(slopes) < -60.0 / 0.8


def test_what_comes_straight_is_stronger_by_as_much_as_is_said():
    response = ROOM.response(RATE)
    assert not response[1:80].any()  # 5 ms
    assert decibels(response[0] ** 2 / np.sum(response[1:] ** 2)) == pytest.approx(6.0)
    assert np.sum(response**2) == pytest.approx(1.0)


def test_a_room_is_the_convolution_with_its_response():
    samples = np.random.default_rng(1).standard_normal(5000)
    heard = ROOM.filled(samples, RATE)
    np.testing.assert_allclose(heard, np.convolve(samples, ROOM.response(RATE))[:5000], atol=1e-10)


def test_a_microphone_cuts_its_band():
    def gain(frequency):
        wave = np.sin(2 * math.pi * frequency * np.arange(RATE) / RATE)
        energies = np.abs(np.fft.rfft(ROOM.heard(wave, RATE))) ** 2 / np.abs(np.fft.rfft(wave)[frequency]) ** 2
        assert energies[frequency] == pytest.approx(energies.sum(), rel=1e-6)  # nothing is added elsewhere
        return decibels(energies[frequency])

    assert gain(100) == pytest.approx(-3.01, abs=0.02) == gain(4000)
    assert gain(1000) == pytest.approx(0.0, abs=0.01)
    assert gain(50) == pytest.approx(-12.3, abs=0.1)
    assert gain(7999) < -47.0
    assert not np.abs(ROOM.heard(np.ones(RATE), RATE)).max() > 1e-9


def test_a_sound_is_not_delayed():
    click = np.zeros(RATE)
    click[5000] = 1.0
    assert np.argmax(ROOM.heard(ROOM.filled(click, RATE), RATE)) == 5000


def test_rooms_are_drawn_from_what_is_said():
    drawn = [rooms.draw(randomness("room", number)) for number in range(200)]
    for name, (low, high) in {
        "reverberation": rooms.REVERBERATION,
        "direct": rooms.DIRECT,
        "lowest": rooms.LOWEST,
        "highest": rooms.HIGHEST,
    }.items():
        values = [getattr(room, name) for room in drawn]
        assert low <= min(values) < low + 0.1 * (high - low) < high - 0.1 * (high - low) < max(values) <= high
    assert len({room.seed for room in drawn}) == 200
    assert drawn[3] == rooms.draw(randomness("room", 3))
