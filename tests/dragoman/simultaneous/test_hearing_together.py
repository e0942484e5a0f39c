"""Listeners who wait at the same time share a batch, and write what each writes alone."""

import itertools
from functools import partial

import numpy as np
import pytest
import torch

from dragoman import BeamSearch, GreedySearch, Rules, System
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.nn.translator import Translator
from dragoman.shared.sound.audio import SAMPLE_RATE
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from dragoman.simultaneous import listening
from dragoman.simultaneous.listening import Listener, Turn, hear_together
from dragoman.simultaneous.live_talk import LiveTalk, listen, talks_together
from dragoman.simultaneous.policies import AlignAtt, Hold, LocalAgreement, WaitK
from tests import small

RULES = Rules(maximum_length_extra=12)
#: Language, the round in which somebody begins to speak, and seconds of his chunks.
SPEAKERS = [("de", 0, [0.3] * 6), ("fr", 0, [0.5, 0.05, 0.4, 0.0, 0.7]), ("de", 2, [0.06, 1.1, 0.2]), ("fr", 3, [0.4])]


@pytest.fixture(scope="module")
def system():
    """An untrained model of English sound that writes German or French."""
    tokenizer = SentencePieceTokenizer(model=str(small.GOLDEN / "tokenizer.model"), tags=["en", "de", "fr"])
    torch.manual_seed(11)
    parts = {"embeddings": {"speech": small.speech_embedding()}, "layers": 2}
    made = small.system(tokenizer, small.translator(tokenizer, **parts), inputs={"speech": SpeechField()})
    for parameter in made.model.parameters():
        if parameter.dim() > 1:  # so that outputs depend on what is heard
            torch.nn.init.normal_(parameter, std=0.4)
    return System(**made.arguments | {"target_languages": ["de", "fr"]})


@pytest.fixture
def batches(monkeypatch):
    """Record what each search is given: the length of each row's prefix, and its target language."""
    found, searched = [], System.searched

    def noted(self, generator, batch, search, *, forced=None):
        found.append([*zip(map(len, forced), batch.languages["target"], strict=True)])
        return searched(self, generator, batch, search, forced=forced)

    monkeypatch.setattr(System, "searched", noted)
    return found


def noise(seconds, seed):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 0.1, round(seconds * SAMPLE_RATE)).astype(np.float32))


def listener(system, policy, search, language):
    made = Listener(system, policy, search=search, target_language=language)
    made.spaced = False  # this model writes no spaces
    return made


def rounds(listeners):
    """Yield the turns of all who speak in a round."""
    for number in range(max(begin + len(chunks) for _, begin, chunks in SPEAKERS)):
        turns = []
        for seed, (one, (_, begin, chunks)) in enumerate(zip(listeners, SPEAKERS, strict=True)):
            if 0 <= (place := number - begin) < len(chunks):
                turns.append(Turn(one, noise(chunks[place], 10 * seed + place), place == len(chunks) - 1))
        yield turns


def state(one):
    return one.text, one.written, one.hypotheses, one.heard, one.chunks


def told(emissions):
    return [(one.text, one.heard, one.last, one.start, one.end) for one in emissions]


POLICIES = [LocalAgreement(), Hold(tokens=2), AlignAtt(frames=2, layer=1), WaitK(k=1, tokens=True)]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize(
    ("search", "apart"),
    [
        pytest.param(GreedySearch(rules=RULES), frozenset(), id="greedy, in one batch"),
        pytest.param(GreedySearch(rules=RULES), listening.APART, id="greedy, apart", marks=pytest.mark.slow),
        pytest.param(BeamSearch(beam=3, rules=RULES), frozenset(), id="beam, in one batch", marks=pytest.mark.slow),
        pytest.param(BeamSearch(beam=3, rules=RULES), listening.APART, id="beam, apart"),
    ],
)
def test_each_writes_what_he_writes_alone(system, batches, monkeypatch, search, policy, apart):
    alone = [listener(system, policy, search, language) for language, *_ in SPEAKERS]
    expected = [turn.listener.hear(turn.waveform, last=turn.last) for turns in rounds(alone) for turn in turns]
    assert {len(batch) for batch in batches} == {1}
    batches.clear()
    monkeypatch.setattr(listening, "APART", apart)
    together = [listener(system, policy, search, language) for language, *_ in SPEAKERS]
    found = [emission for turns in rounds(together) for emission in hear_together(turns)]
    assert told(found) == told(expected) and [*map(state, together)] == [*map(state, alone)]
    assert len({one.text for one in together}) == len(SPEAKERS)
    # All who have been heard for long enough share a batch, whatever they have written.
    assert [len(batch) for batch in batches] == [2, 2, 2, 4, 3, 1]
    if not isinstance(policy, LocalAgreement):
        assert any(len({begun for begun, _ in batch}) > 1 for batch in batches)
    assert {language for _, language in batches[3]} == {"de", "fr"}


def test_a_decoder_that_cannot_begin_anywhere_writes_for_one_after_the_other(system, batches, monkeypatch):
    search = GreedySearch(rules=RULES)
    first, second = ([listener(system, Hold(tokens=2), search, code) for code, *_ in SPEAKERS] for _ in range(2))
    for turns in rounds(first):
        hear_together(turns)
    batches.clear()
    monkeypatch.setattr(Translator, "ragged", False)
    for turns in rounds(second):
        hear_together(turns)
    assert {len(batch) for batch in batches} == {1} and [*map(state, first)] == [*map(state, second)]


def test_a_batch_takes_no_more_sound_than_fits(system, batches, monkeypatch):
    monkeypatch.setattr(listening, "translation_budget", lambda rows: Budget(rows=rows, seconds=1.9))
    search = GreedySearch(rules=RULES)
    listeners = [listener(system, Hold(tokens=2), search, "de") for _ in range(5)]
    hear_together([Turn(one, noise(0.9, seed)) for seed, one in enumerate(listeners)])
    assert [len(batch) for batch in batches] == [2, 2, 1]


def test_what_is_wrong_with_one_is_not_the_others_fault(system, monkeypatch):
    encode = system.model.encode

    def refusing(batch, field=None):
        if 8000 in batch["speech"].lengths.tolist():
            raise DataError("too long")
        return encode(batch, field)

    search = GreedySearch(rules=RULES)
    policies = [Hold(tokens=2), Hold(tokens=2), AlignAtt(layer=3), Hold(tokens=2)]
    sounds = [noise(seconds, seed) for seed, seconds in enumerate([0.4, 0.5, 0.6, 0.7])]
    expected = [listener(system, policies[n], search, "fr").hear(sounds[n]).text for n in (0, 3)]
    for apart in (listening.APART, frozenset()):
        monkeypatch.setattr(listening, "APART", apart)
        monkeypatch.setattr(system.model, "encode", refusing)
        listeners = [listener(system, policy, search, "fr") for policy in policies]
        found = hear_together([Turn(one, sound) for one, sound in zip(listeners, sounds, strict=True)])
        monkeypatch.setattr(system.model, "encode", encode)
        assert [found[0].text, found[3].text] == expected and all(expected)
        assert isinstance(found[1], DataError) and isinstance(found[2], UsageError)


class Loud:
    """Takes what is loud somewhere for speech; fails where it is very loud."""

    name = "loud"

    def has_speech(self, waveform):
        most = float(np.abs(waveform).max(initial=0.0))
        if most > 5:
            raise RuntimeError("deaf")
        return most > 0.05


def test_talks_are_divided_as_each_alone(system):
    """Sentences of different talks end in different chunks; one chunk holds the ends of several."""
    silence = torch.zeros(6000)
    voices = [[0.5, 0.4, 0.3], [1.2, 0.2], [0.3, 0.3, 0.2, 0.3], [0.6]]
    sounds = [
        torch.cat([part for number, one in enumerate(talk) for part in (noise(one, 7 * seed + number), silence)])
        for seed, talk in enumerate(voices)
    ]
    begin = partial(listener, system, Hold(tokens=2), BeamSearch(beam=2, rules=RULES))
    options = {"detector": Loud(), "maximum_seconds": 1.0, "pause": 0.3}
    size = 8000
    expected = [[*listen(partial(begin, "fr"), sound.split(size), **options)] for sound in sounds]
    talks = [LiveTalk(partial(begin, "fr"), **options) for _ in sounds]
    found = [[] for _ in sounds]
    for chunks in itertools.zip_longest(*(sound.split(size) for sound in sounds)):
        heard = [number for number, chunk in enumerate(chunks) if chunk is not None]
        for number, emissions in zip(heard, talks_together([talks[n].turns(chunks[n]) for n in heard]), strict=True):
            found[number] += emissions
    for number, emissions in enumerate(talks_together([talk.last_turn() for talk in talks])):
        found[number] += emissions
    assert [*map(told, found)] == [*map(told, expected)]
    assert [sum(one.last for one in talk) for talk in found] == [3, 3, 4, 1]


def test_a_talk_that_fails_ends_alone(system):
    begin = partial(listener, system, Hold(tokens=2), GreedySearch(rules=RULES), "de")
    talks = [LiveTalk(begin, detector=Loud()) for _ in range(2)]
    found = talks_together([talks[0].turns(noise(0.5, 1)), talks[1].turns(noise(0.5, 1) * 100)])
    assert isinstance(found[1], RuntimeError) and [one.end for one in found[0]] == [0.5]
