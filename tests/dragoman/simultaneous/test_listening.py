"""Listeners: what was written stays, words are whole, policies do as their papers say, and pauses end sentences."""

import itertools
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dragoman as package
from dragoman import BeamSearch, CtcGreedySearch, GreedySearch, Hypothesis, Rules, System, UsageError
from dragoman.shared.batch import Batch
from dragoman.shared.generator import next_scores
from dragoman.shared.padded import Padded
from dragoman.shared.sound.audio import SAMPLE_RATE
from dragoman.simultaneous.listening import Encoded, Guess, Listener
from dragoman.simultaneous.live_talk import LiveTalk, listen
from dragoman.simultaneous.policies import AlignAtt, Hold, LocalAgreement, WaitK
from tests.small import GOLDEN, refuses

SHORT = Rules(maximum_length_extra=8)


def guess(tokens, *, earlier=(), chunks=1, ends=(), written=0, attention=None):
    return Guess(tokens, written, list(ends), list(earlier), chunks, lambda layer: attention)


def test_scores_of_combined_models_are_not_normalised_again_behind_a_wrapper():
    class Combined:
        def step(self, tokens, state):
            return torch.tensor([[-1.0, -2.0]]), state

        def scores(self, logits):
            return logits

    found, _ = next_scores(Encoded(Combined(), None), torch.zeros(1, 1), {})
    assert found.tolist() == [[-1.0, -2.0]]  # their probabilities need not sum up to 1


@pytest.fixture(scope="module")
def system(speech_model):
    return package.load(speech_model, device="cpu")


@pytest.fixture
def scripted(system, monkeypatch):
    """Let the system's best outputs of 1, 2, ... tenths of a second be given texts; return it and what was forced."""

    def make(*texts):
        given = []
        pieces = [system.output.tokenizer.encode(text) for text in texts]

        def searched(self, generator, batch, search, *, forced):
            given.append(list(forced[0]))
            ids = pieces[min(int(batch["speech"].lengths[0]) // 1600, len(pieces)) - 1]
            assert ids[: len(given[-1])] == given[-1], "the script contradicts what was written"
            return [[Hypothesis([*ids[len(given[-1]) :], system.output.tokenizer.eos], 0.0)]]

        monkeypatch.setattr(System, "searched", searched)
        return system, given

    return make


def noise(seconds, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 0.1, round(seconds * SAMPLE_RATE)).astype(np.float32))


def heard(listener, chunks):
    found = [listener.hear(chunk) for chunk in chunks[:-1]]
    return [*found, listener.hear(chunks[-1], last=True)]


@pytest.mark.parametrize(
    ("policy", "given", "wanted"),
    [
        (LocalAgreement(), guess([1, 2, 3]), 0),  # nothing to agree with yet
        (LocalAgreement(), guess([1, 2, 3], earlier=[[1, 9], [1, 2, 4, 5]]), 2),  # the last one counts
        (LocalAgreement(), guess([1, 2], earlier=[[1, 2, 3]]), 2),
        (LocalAgreement(agree=3), guess([1, 2, 3], earlier=[[1, 9], [1, 2, 3]]), 1),
        (LocalAgreement(agree=3), guess([1, 2, 3], earlier=[[1, 2, 3]]), 0),
        (Hold(tokens=2), guess([1, 2, 3, 4, 5]), 3),
        (WaitK(k=3), guess([1, 2, 3, 4], ends=[1, 3], chunks=2), 0),
        (WaitK(k=3), guess([1, 2, 3, 4], ends=[1, 3], chunks=3), 1),
        (WaitK(k=3), guess([1, 2, 3, 4], ends=[1, 3], chunks=4), 3),
        (WaitK(k=3), guess([1, 2, 3, 4], ends=[1, 3], chunks=9), 3),
        (WaitK(k=2, tokens=True), guess([1, 2, 3, 4], ends=[1, 3], chunks=3), 2),
        (WaitK(k=2, tokens=True), guess([1, 2, 3, 4], ends=[1, 3], chunks=1), 0),
    ],
)
def test_what_is_certain(policy, given, wanted):
    assert policy.certain(given) == wanted


def test_what_attends_to_the_last_frames_is_not_certain_nor_what_follows_it():
    attention = torch.zeros(4, 10)
    for token, place in enumerate([8, 2, 7, 3]):  # the first has been written, and is not looked at again
        attention[token, place] = 1.0
    given = guess([5, 6, 7, 8], written=1, attention=attention)
    assert AlignAtt(frames=2).certain(given) == 4
    assert AlignAtt(frames=3).certain(given) == 2
    assert AlignAtt(frames=8).certain(given) == 1


@pytest.mark.parametrize(
    "make", [lambda: LocalAgreement(agree=1), lambda: Hold(tokens=0), lambda: AlignAtt(frames=0), lambda: WaitK(k=0)]
)
def test_numbers_that_make_no_sense_are_refused(make):
    refuses(UsageError, "must be at least", make)


def test_whole_words_are_written_as_soon_as_two_outputs_agree(scripted):
    system, forced = scripted("one", "one two", "one two three", "one two three four")
    found = heard(Listener(system, LocalAgreement()), noise(0.4).split(1600))
    # "one" is agreed on after the second chunk; "two" could still become "twofold" there.
    assert [emission.text for emission in found] == ["", "one", " two", " three four"]
    assert [emission.heard for emission in found] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert [emission.last for emission in found] == [False, False, False, True]
    tokenizer = system.output.tokenizer
    assert forced == [[], [], tokenizer.encode("one"), tokenizer.encode("one two")]


def test_only_a_last_hypothesis_that_was_cut_makes_a_sentence_cut(system, monkeypatch):
    cuts = iter([True, False, False, True])

    def searched(self, generator, batch, search, *, forced):
        return [[Hypothesis([20, 31], 0.0, cut=next(cuts))]]

    monkeypatch.setattr(System, "searched", searched)
    for wanted in ([False, False], [False, True]):
        found = heard(Listener(system, LocalAgreement()), noise(0.4).split(3200))
        assert [emission.cut for emission in found] == wanted


def test_a_word_that_may_go_on_is_not_written(scripted):
    system, _ = scripted("one two", "one two")
    found = heard(Listener(system, LocalAgreement()), noise(0.3).split(1600))
    assert [emission.text for emission in found] == ["", "one", " two"]


def test_a_language_without_spaces_is_written_by_its_signs(scripted, monkeypatch):
    """But not in the middle of a Latin word, of which "New" may be the beginning."""
    system, _ = scripted("我", "我在New", "我在Newton", "我在Newton 工作")
    monkeypatch.setattr(system, "target_languages", ["zh"])
    listener = Listener(system, LocalAgreement())
    listener.languages["target"] = ["de"]  # this tokenizer has no symbol for Chinese
    found = heard(listener, noise(0.4).split(1600))
    assert [emission.text for emission in found] == ["", "我", "在", "Newton 工作"]


def test_what_is_no_longer_certain_stays_written(scripted):
    system, _ = scripted("one two three", "one two three", "one two three")

    class Doubts:
        def certain(self, given):
            return len(given.tokens) if given.chunks == 1 else 0

    found = heard(Listener(system, Doubts()), noise(0.3).split(1600))
    assert [emission.text for emission in found] == ["one two", "", " three"]


def test_an_output_goes_on_from_what_was_written(system):
    search = GreedySearch(rules=Rules(maximum_length_extra=20, minimum_length=20))
    listener, sound = Listener(system, Hold(), search=search), noise(0.9)
    listener.written = system.output.tokenizer.encode("one two")
    listener.hear(sound)
    given = Batch({"speech": Padded.from_sequences([sound])}, {"target": ["de"]}, ["a"])
    with torch.inference_mode():
        wanted = system.translate_batch(given, search, forced=[listener.written])[0][0].tokens[:20]
    assert len(listener.written) < 20 and listener.hypotheses[-1][:20] == wanted


def test_what_is_too_short_for_a_frame_is_waited_for(scripted):
    system, forced = scripted("one")
    listener = Listener(system, LocalAgreement())
    assert listener.hear(torch.zeros(0)).text == listener.hear(noise(0.05)).text == ""
    assert not forced
    assert listener.hear(noise(0.05), last=True).text == listener.text == "one"


def test_computing_delays_what_follows(scripted, monkeypatch):
    system, _ = scripted("one", "one two", "one two three")
    ticks = iter([0.0, 0.25, 10.0, 10.02, 20.0, 20.02])  # 0.25 s for the first chunk, then 0.02 s each
    monkeypatch.setattr("dragoman.simultaneous.listening.time.perf_counter", lambda: next(ticks))
    found = heard(Listener(system, LocalAgreement()), noise(0.3).split(1600))
    # The first is done at 0.1 + 0.25; the second chunk was there by then, and so was the third.
    assert [emission.elapsed for emission in found] == pytest.approx([0.35, 0.37, 0.39])


def test_all_sound_in_one_chunk_gives_the_offline_output(system):
    sound = noise(0.7)
    search = BeamSearch(beam=3, rules=SHORT)
    emission = Listener(system, LocalAgreement(), search=search).hear(sound, last=True)
    given = Batch({"speech": Padded.from_sequences([sound])}, {"target": ["de"]}, ["a"])
    with torch.inference_mode():
        wanted = system.translate_batch(given, search)[0][0].texts["translation"]
    assert emission.text == wanted != ""


POLICIES = st.sampled_from([LocalAgreement(), Hold(tokens=2), AlignAtt(frames=2, layer=1), WaitK(k=1)])


@settings(max_examples=25)
@given(policy=POLICIES, sizes=st.lists(st.integers(0, 6000), min_size=1, max_size=5), seed=st.integers(0, 9))
def test_what_was_written_stays_and_times_do_not_run_back(system, policy, sizes, seed):
    sound = noise(sum(sizes) / SAMPLE_RATE, seed)
    listener = Listener(system, policy, search=GreedySearch(rules=SHORT))
    listener.spaced = False  # this model writes no spaces
    texts, found = [""], []
    for chunk in sound.split(sizes):
        found.append(listener.hear(chunk))
        texts.append(listener.text)
        assert texts[-1] == texts[-2] + found[-1].text
    found.append(listener.hear(torch.zeros(0), last=True))
    assert listener.text == "".join(emission.text for emission in found)
    assert found[-1].heard == sum(sizes) / SAMPLE_RATE
    for early, late in itertools.pairwise(found):
        assert early.heard <= late.heard and early.elapsed <= late.elapsed and late.heard <= late.elapsed


def test_attention_is_that_of_the_step_that_chose_the_token(system):
    """The oracle decodes step by step, and multiplies queries and keys at each."""
    sound, tokens = noise(0.6), [20, 31, 12]
    seen = []

    class Look:
        def certain(self, given):
            seen.append(given.attention(1))
            return 0

    def searched(generator, batch, search, *, forced):
        return [[Hypothesis(tokens, 0.0)]]

    listener = Listener(system, Look())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(system, "searched", searched)
        listener.hear(sound)
    model = system.model
    attention = model.decoder.layers[0].memory_attention["source"]
    queries = []
    hook = attention.register_forward_pre_hook(lambda module, given: queries.append(module.queries(given[0])))
    with torch.no_grad():
        encoding = model.encode(Batch({"speech": Padded.from_sequences([sound])}, {}, ["a"]))
        start = system.output.prefix_ids("de")
        state = model.start(encoding, None)
        for token in [*start, *tokens[:-1]]:
            _, state = model.step(torch.tensor([token]), state)
        keys = attention.keys_values(encoding.memories["source"].values)[0, :, :16]
    hook.remove()
    for row, query in zip(seen[0], queries[len(start) - 1 :], strict=True):
        heads = [(keys[:, part] @ query[0, 0, part] / 8**0.5).softmax(0) for part in (slice(0, 8), slice(8, 16))]
        torch.testing.assert_close(row, (heads[0] + heads[1]) / 2, rtol=1e-5, atol=1e-6)


def test_sound_is_encoded_once_a_chunk(system):
    listener = Listener(system, AlignAtt(frames=1), search=GreedySearch(rules=SHORT))
    calls, encode = [], system.model.encode
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(system.model, "encode", lambda batch, field=None: calls.append(batch) or encode(batch, field))
        texts = [listener.hear(noise(0.4), last=last).text for last in (False, False, True)]
    assert len(calls) == 3 and any(texts)
    again = Listener(system, AlignAtt(frames=1), search=GreedySearch(rules=SHORT))
    again.plain = False
    assert [again.hear(noise(0.4), last=last).text for last in (False, False, True)] == texts


def test_an_end_that_brings_no_sound_is_not_encoded_again(system):
    listener = Listener(system, LocalAgreement(), search=GreedySearch(rules=SHORT))
    calls, encode = [], system.model.encode
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(system.model, "encode", lambda batch, field=None: calls.append(batch) or encode(batch, field))
        found = [listener.hear(noise(0.4)), listener.hear(noise(0.3, seed=2)), listener.hear(noise(0), last=True)]
    assert [len(batch["speech"].values[0]) for batch in calls] == [6400, 11200]
    again = Listener(system, LocalAgreement(), search=GreedySearch(rules=SHORT))
    again.plain = False
    expected = [again.hear(noise(0.4)), again.hear(noise(0.3, seed=2)), again.hear(noise(0), last=True)]
    assert [one.text for one in found] == [one.text for one in expected] and any(one.text for one in found)


def test_what_cannot_listen_is_refused(system, monkeypatch):
    said = "CtcGreedySearch does not search the outputs of a decoder"
    refuses(UsageError, said, Listener, system, Hold(), search=CtcGreedySearch())
    refuses(UsageError, "target language 'fr' is unknown", Listener, system, Hold(), target_language="fr")
    late = Listener(system, AlignAtt(layer=2), search=GreedySearch(rules=SHORT))
    refuses(UsageError, "the decoder has layers 1 to 1, not 2", late.hear, noise(0.5))
    monkeypatch.setattr(type(system.model.embeddings["speech"]), "lengths", lambda self, samples: samples)
    quick = Listener(system, AlignAtt(), search=GreedySearch(rules=SHORT))
    refuses(UsageError, "is not in step with the sound", quick.hear, noise(0.5))
    refuses(UsageError, "only a system that reads speech", Listener, package.load(GOLDEN, device="cpu"), Hold())


class Loud:
    """Takes what is loud somewhere for speech."""

    name = "loud"

    def has_speech(self, waveform):
        return bool(np.abs(waveform).max(initial=0.0) > 0.05)


def test_pauses_end_sentences_and_silence_is_not_shown(scripted):
    system, _ = scripted(*["one two three"] * 20)
    shown = []
    sound = torch.cat([torch.zeros(8000), noise(0.5), torch.zeros(8000), noise(0.3), torch.zeros(3200)])

    class Look(LocalAgreement):
        def certain(self, given):
            shown.append(given.chunks)
            return super().certain(given)

    found = list(listen(partial(Listener, system, Look()), sound.split(1600), detector=Loud(), pause=0.3))
    ends = [emission.heard for emission in found if emission.last]
    assert ends == pytest.approx([1.3, 2.0], abs=0.11)  # 0.3 s after the voice at 1.0 s; at the end
    texts = "".join(emission.text + "\n" * emission.last for emission in found)
    assert texts == "one two three\none two three\n"
    assert all(early.heard <= late.heard for early, late in itertools.pairwise(found))
    assert min(emission.heard for emission in found) == pytest.approx(0.6)  # nothing before somebody speaks
    spans = [(emission.start, emission.end) for emission in found if emission.last]
    assert np.array(spans) == pytest.approx(np.array([(0.5, 1.0), (1.5, 1.8)]), abs=0.11)
    assert all(emission.start < emission.end <= emission.heard for emission in found)
    assert max(shown) <= 6  # chunks of silence are not translated


def test_a_pause_within_a_chunk_ends_the_sentence_and_changes_no_word(system):
    silence = torch.zeros(14400)
    sound = torch.cat([noise(1.3), silence, noise(0.7), silence, noise(0.1), silence])
    begin = partial(Listener, system, Hold(tokens=2), search=GreedySearch(rules=SHORT))
    options = {"detector": Loud(), "pause": 0.4}
    whole = list(listen(begin, sound.split(8000), **options))
    found = list(listen(begin, sound.split(1600), chunk=0.5, **options))
    written = [[(one.text, one.last, one.start, one.end) for one in some] for some in (whole, found)]
    assert written[0] == written[1]
    ends = np.array([[one.heard for one in some if one.last] for some in (whole, found)])
    assert ends[0] == pytest.approx([2.0, 3.5, 4.5])
    # The voice ends at 1.3, 2.9 and 3.9 s; the pause, a window of levels, and the piece come behind it.
    late = ends[1] - np.array([1.3, 2.9, 3.9])
    assert (0.4 <= late + 1e-6).all() and (late <= 0.4 + 0.05 + 0.1 + 1e-6).all()


def test_what_is_less_than_a_chunk_at_the_end_is_heard_too(system):
    sound = noise(0.8)
    begin = partial(Listener, system, Hold(tokens=2), search=GreedySearch(rules=SHORT))
    whole = list(listen(begin, sound.split(8000), detector=Loud()))
    found = list(listen(begin, sound.split(1600), detector=Loud(), chunk=0.5))
    assert [(one.text, one.heard, one.last) for one in found] == [(one.text, one.heard, one.last) for one in whole]
    assert found[-1].end == 0.8


def test_a_sentence_waits_for_the_translation_of_the_one_before(scripted, monkeypatch):
    system, _ = scripted(*["one"] * 20)
    ticks = itertools.count(0.0, 5.0)  # every chunk takes five seconds
    monkeypatch.setattr("dragoman.simultaneous.listening.time.perf_counter", lambda: next(ticks))
    begin = partial(Listener, system, Hold())
    found = list(listen(begin, noise(0.4).split(3200), detector=Loud(), maximum_seconds=0.2, pause=0.1))
    assert [emission.last for emission in found] == [True, True]
    assert [emission.elapsed for emission in found] == pytest.approx([0.2 + 5, 0.2 + 5 + 5])


def test_a_sentence_is_shown_from_its_first_sound_to_its_last(system, monkeypatch):
    """Of 0.5 s of silence, 0.5 s of noise and 0.5 s of silence, the noise is heard, with margins."""
    listeners = []
    whole = Listener.take

    def take(self, *given):
        listeners.append(self)
        return whole(self, *given)

    monkeypatch.setattr(Listener, "take", take)
    voice = noise(0.5)
    sound = torch.cat([torch.zeros(8000), voice, torch.zeros(8000)])
    search = GreedySearch(rules=SHORT)
    for size in (1600, 700, 24000):
        listeners.clear()
        begin = partial(Listener, system, Hold(), search=search)
        found = list(listen(begin, sound.split(size), detector=Loud(), pause=0.4))
        assert len({id(one) for one in listeners}) == 1 and found[-1].last
        heard = listeners[0].waveform
        places = heard.nonzero().flatten()
        assert torch.equal(heard[places[0] : places[-1] + 1], voice)
        margins = int(places[0]) / SAMPLE_RATE, (len(heard) - 1 - int(places[-1])) / SAMPLE_RATE
        assert max(margins) <= 0.09  # half a window of 100 ms, and the margin
        assert found[-1].elapsed >= found[-1].heard >= 1.4


def test_a_chunk_may_hold_ends_of_sentences(scripted):
    system, _ = scripted(*["one"] * 40)
    silence = torch.zeros(8000)
    sound = torch.cat([silence, noise(0.5), silence, noise(0.4), silence, noise(0.3), silence])
    begin = partial(Listener, system, Hold())
    for size in (len(sound), 20000, 1600):
        found = list(listen(begin, sound.split(size), detector=Loud(), pause=0.4))
        assert [emission.text for emission in found if emission.last] == ["one"] * 3


def test_a_speaker_may_end_a_sentence(scripted):
    system, _ = scripted(*["one two"] * 20)
    talk = LiveTalk(partial(Listener, system, Hold(tokens=9)), detector=Loud(), pause=0.4)
    first = [*talk.hear(noise(0.5)), *talk.end()]
    assert [(emission.text, emission.last) for emission in first] == [("", False), ("one two", True)]
    assert [*talk.end()] == []  # there is none
    second = [*talk.hear(noise(0.3)), *talk.end()]
    assert second[-1].text == "one two" and second[-1].last
    assert (second[-1].start, second[-1].end) == pytest.approx((0.5, 0.8))


def test_a_sentence_ends_when_it_is_too_long(scripted):
    system, _ = scripted(*["one"] * 20)
    begin = partial(Listener, system, Hold())
    found = list(listen(begin, noise(1.2).split(1600), detector=Loud(), maximum_seconds=0.5, pause=0.3))
    assert [emission.heard for emission in found if emission.last] == pytest.approx([0.5, 1.0, 1.2])
    # A model that hears no more than that must not be shown the rest of a long chunk.
    found = list(listen(begin, [noise(0.4), noise(0.8)], detector=Loud(), maximum_seconds=0.5, pause=0.3))
    spans = [value for emission in found if emission.last for value in (emission.start, emission.end)]
    assert spans == pytest.approx([0.0, 0.5, 0.5, 1.0, 1.0, 1.2])
    with pytest.raises(UsageError, match="need 0 < pause < maximum_seconds, not 0.5 and 0.5"):
        list(listen(begin, [], maximum_seconds=0.5, pause=0.5))
