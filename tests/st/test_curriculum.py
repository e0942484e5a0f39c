"""Curriculum pre-training: its losses against loops and numpy, and what it hides."""

import numpy as np
import pytest
import torch
from torch import nn

from dragoman import Recipe, UsageError
from dragoman.shared.batch import Batch
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.nn.fbank import UtteranceNorm
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.padded import Padded
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.training.initialise import Initialise
from dragoman.st.curriculum import HidingEncoder, WordPrediction
from tests import small

WIDTH, BINS, VOCABULARY = 16, 8, 11
SAMPLES = [9000, 6400]
#: First sample and end of each word, whether it is hidden, its pieces, and those of its translation.
WORDS = [
    [((0, 1700), False, [3, 4], [5]), ((1700, 4001), True, [6, 6, 7], []), ((4500, 9000), False, [8], [9, 10])],
    [((333, 2560), True, [3], [1, 1]), ((6300, 6400), False, [2, 5], [4])],
]


def embedding():
    return small.speech_embedding(WIDTH, bins=BINS, normalisation=UtteranceNorm(variances=False))


def encoder(layers=3, taps=(1, 3), pre_norm=True):
    return small.encoder(layers, taps, pre_norm=pre_norm)


def model(taps=(1, 3), normalised=1):
    torch.manual_seed(1)
    one = HidingEncoder(embeddings={"speech": embedding()}, encoder=encoder(taps=taps), normalised=normalised)
    if normalised is not None:
        nn.init.normal_(one.tap_norm.weight)
    return one.eval()


def batch(rows=(0, 1), hide=True):
    torch.manual_seed(2)
    sounds = [torch.randn(count) * 0.1 for count in SAMPLES]
    fields = {"speech": [sounds[row] for row in rows]}
    fields["speech.words"] = [torch.tensor([word[0] for word in WORDS[row]]) for row in rows]
    fields["speech.hidden"] = [torch.tensor([word[1] and hide for word in WORDS[row]]) for row in rows]
    for place, key in ((2, "said"), (3, "translated")):
        pieces, shares = [], []
        for row in rows:
            different = [(n, id, word[place]) for n, word in enumerate(WORDS[row]) for id in dict.fromkeys(word[place])]
            pieces.append(torch.tensor([(n, id) for n, id, _ in different]))
            shares.append(torch.tensor([ids.count(id) / len(ids) for _, id, ids in different]))
        fields |= {f"speech.{key}": pieces, f"speech.{key}_shares": shares}
    return Batch({name: Padded.from_sequences(sequences) for name, sequences in fields.items()})


def masked_words(**changes):
    torch.manual_seed(3)
    settings = {"name": "masked_words", "field": "said", "tap": 1, "hidden": True}
    return WordPrediction(**settings | {"width": WIDTH, "vocabulary": VOCABULARY} | changes)


def lexicon(**changes):
    torch.manual_seed(4)
    settings = {"name": "lexicon", "field": "translated", "tap": 3, "width": WIDTH, "vocabulary": VOCABULARY}
    return WordPrediction(**settings | changes)


def test_frames_of_hidden_words_become_the_mean_of_their_utterance_and_no_others():
    speech = batch()["speech"]
    front = embedding()
    features = front.features(speech)
    told = HidingEncoder(embeddings={"speech": front}, encoder=encoder(layers=1, taps=()))
    seen = []
    front.subsampler.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    told.embed(batch(), "speech")
    assert told.embed(batch()).values.equal(told.embed(batch(), "speech").values)
    for row, words in enumerate(WORDS):
        own = features.rows()[row]
        hidden = {
            frame
            for (first, end), is_hidden, *_ in words
            if is_hidden
            for frame in range(len(own))
            if 160 * (frame + 1) > first and 160 * frame < end  # a hop that holds a sample of the word
        }
        assert 0 < len(hidden) < len(own)
        for frame in range(len(own)):
            expected = own.mean(0) if frame in hidden else own[frame]
            torch.testing.assert_close(seen[0].rows()[row][frame], expected, atol=1e-5, rtol=1e-5)


def test_without_hidden_words_it_hears_all():
    one, rows = model(), batch(hide=False)
    plain = Batch({"speech": rows["speech"]})
    assert torch.equal(one.embed(rows, "speech").values, one.embed(plain, "speech").values)
    assert not torch.equal(one.embed(batch(), "speech").values, one.embed(plain, "speech").values)


def expected(states, projection, norm, place, only_hidden):
    """Return the divergence and the right answers, word by word, in numpy."""
    weight = projection.weight.detach().double().numpy()
    total, right, asked = 0.0, 0, 0
    for row, words in enumerate(WORDS):
        own = states.rows()[row]
        own = (own if norm is None else norm(own)).detach().double().numpy()
        for word in words:
            (first, end), hidden, ids = word[0], word[1], word[place]
            if not ids or (only_hidden and not hidden):
                continue
            frames = first // 160, -(-end // 160)
            begin, stop = frames[0] // 4, -(-frames[1] // 4)
            begin, stop = min(begin, len(own) - 1), min(stop, len(own))
            logits = weight @ np.mean([own[state] for state in range(begin, stop)], axis=0)
            p = np.exp(logits) / np.exp(logits).sum()
            q = np.bincount(ids, minlength=VOCABULARY) / len(ids)
            total += sum(q[id] * np.log(q[id] / p[id]) for id in range(VOCABULARY) if q[id])
            right += int(p.argmax() in ids)
            asked += 1
    return total, right, asked


@pytest.mark.parametrize(
    ("part", "place"), [(masked_words(weight=0.15), 2), (lexicon(), 3), (masked_words(hidden=False), 2)]
)
def test_divergences_against_numpy(part, place):
    one, rows = model(), batch()
    encoding = one.encode(rows, "speech")
    terms = part.terms(one, rows, encoding)
    states = encoding.extras[f"tap.{part.tap}"]
    total, right, asked = expected(states, part.projection, one.tap_norm if part.tap == 1 else None, place, part.hidden)
    assert asked == int(part.counts(rows)[part.name]) == int(terms[part.name].count)
    assert terms[part.name].sum.item() == pytest.approx(total, rel=1e-5)
    assert int(terms[f"{part.name}_accuracy"].sum) == right
    assert [terms[name].weight for name in terms] == [part.weight, 0.0]


def test_what_learns():
    """The masked words teach the layers up to theirs, the lexicon all of them."""
    one, both = model(), [masked_words(), lexicon()]
    for parts, untouched in ((both[:1], {"1", "2"}), (both[1:], set()), (both, set())):
        objective = small.objective(one, *parts)
        objective.zero_grad()
        objective(batch()).total().backward()
        layers = {
            name.split(".")[4]: parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
            for name, parameter in objective.named_parameters()
            if name.startswith("system.model.encoder.layers.") and name.endswith("weight")
        }
        assert {number for number, learns in layers.items() if not learns} == untouched
        assert all(parameter.grad is not None for part in parts for parameter in part.parameters())


def parts_of(recipe, key):
    start = f"{key}.parts."
    return {name.removeprefix(start): text.strip('"') for name, text in recipe.flat().items() if name.startswith(start)}


def test_the_norm_above_the_recognisers_layers_stays_there_and_the_one_above_all_is_new(tmp_path):
    """As the recipe says it, for two layers of three."""
    torch.manual_seed(8)
    languages = {"inputs": {"speech": SpeechField()}, "source_languages": ["en"]}
    below = EncoderModel(embeddings={"speech": embedding()}, encoder=encoder(layers=2, taps=()))
    recogniser = EncoderSystem(model=below, **languages)
    for parameter in recogniser.model.encoder.norm.parameters():
        nn.init.normal_(parameter)
    recogniser.save(tmp_path / "recogniser")
    system = EncoderSystem(model=model(taps=(2, 3), normalised=2), **languages)
    recipe = Recipe.load("almanac/curriculum")
    for key, allow in (("from_recogniser", ["model.encoder.layers.2"]), ("norm_of_recogniser", [])):
        Initialise(folder=str(tmp_path / "recogniser"), parts=parts_of(recipe, key), allow=allow).apply(system)
    mine, theirs = system.model, recogniser.model
    assert torch.equal(mine.encoder.layers[1].inner.weight, theirs.encoder.layers[1].inner.weight)
    assert torch.equal(mine.tap_norm.weight, theirs.encoder.norm.weight)
    assert torch.equal(mine.tap_norm.bias, theirs.encoder.norm.bias)
    assert (mine.encoder.norm.weight == 1).all() and (mine.encoder.norm.bias == 0).all()


@pytest.mark.parametrize(("normalised", "pre_norm"), [(None, True), (1, False), (None, False)])
def test_a_tap_has_a_norm_if_it_is_asked_for_and_layers_do_not_normalise(normalised, pre_norm):
    stack = encoder(pre_norm=pre_norm)
    one = HidingEncoder(embeddings={"speech": embedding()}, encoder=stack, normalised=normalised).eval()
    assert one.tap_norm is None
    encoding = one.encode(batch(), "speech")
    torch.testing.assert_close(one.tap(encoding, 1).values, EncoderModel.tap(one, encoding, 1).values)


def test_nobody_is_asked_where_nothing_is_translated():
    rows, part, one = batch(), lexicon(), model()
    empty = Padded(torch.zeros(2, 0, 2, dtype=torch.int64), torch.tensor([0, 0]))
    shares = Padded(torch.zeros(2, 0), empty.lengths)
    rows = rows.with_fields(**{"speech.translated": empty, "speech.translated_shares": shares})
    terms = part.terms(one, rows, one.encode(rows, "speech"))
    assert (terms["lexicon"].sum.item(), int(terms["lexicon"].count)) == (0.0, 0)


def test_refusals():
    message = "WordPrediction: field: 'source' is not one of 'said', 'translated'"
    small.refuses(UsageError, message, masked_words, field="source")
    small.refuses(ValueError, r"layer 2 cannot be normalised: the encoder's taps are \[1, 3\]", model, normalised=2)
    message = r"lexicon reads the states of layer 2, but the model's taps are \[1, 3\]"
    small.refuses(UsageError, message, small.objective, model(), lexicon(tap=2))
