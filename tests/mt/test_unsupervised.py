"""Unsupervised translation: what back-translation on the fly puts into a batch, and what it leaves as it was."""

import pytest
import torch

from mt.unsupervised import OnTheFly
from shared.batch import Batch
from shared.corpus.fields import TextField
from shared.corpus.speech_field import SpeechField
from shared.errors import UsageError
from shared.generator import Hypothesis
from shared.machine.workspace import Workspace
from shared.nn.embeddings import TextEmbedding
from shared.nn.heads import TiedProjection
from shared.nn.layer import Layer
from shared.nn.positions import LearnedPositions
from shared.nn.transformer import Decoder, Encoder
from shared.nn.translator import Translator
from shared.objectives import CrossEntropy
from shared.padded import Padded
from shared.recipe.recipe import Recipe
from shared.search.greedy import GreedySearch
from shared.search.rules import Rules
from shared.systems.system import System
from shared.text.piece_model import train_sentencepiece
from shared.text.tokenizer import SentencePieceTokenizer
from shared.training.scheduled import Scheduled
from shared.training.update import prepared

TEXTS = ["abcd", "dc", "bbadc"]
INTO = {"back_de": "en", "back_en": "de"}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = train_sentencepiece(TEXTS * 4, tmp_path_factory.mktemp("t") / "t.model", kind="char", size=290)
    return SentencePieceTokenizer(model=str(path), tags=["de", "en"])


@pytest.fixture
def system(tokenizer):
    torch.manual_seed(1)
    embeddings = [TextEmbedding(vocabulary=tokenizer.size, width=16, padding=tokenizer.pad, dropout=0.5) for _ in "ab"]
    sizes = {"width": 16, "heads": 2, "feedforward": 32, "dropout": 0.5}
    model = Translator(
        embeddings={"source": embeddings[0]},
        encoder=Encoder(layer=Layer(**sizes), layers=1),
        target_embedding=embeddings[1],
        decoder=Decoder(layer=Layer(**sizes, memories=["source"]), layers=1),
        projection=TiedProjection(embedding=embeddings[1]),
    )
    return System(
        model=model,
        inputs={"source": TextField(column="source_text", tokenizer=tokenizer)},
        output=TextField(column="target_text", tokenizer=tokenizer),
        source_languages=["de", "en"],
        target_languages=["de", "en"],
    )


def objective(system, **changes):
    ratio = Rules(maximum_length_ratio=1.3, maximum_length_extra=5)
    tasks = {name: [CrossEntropy(prefix=f"{name}.")] for name in (*INTO, "restore")}
    return OnTheFly(**{"system": system, "tasks": tasks, "into": INTO, "search": GreedySearch(rules=ratio)} | changes)


def batch(system, stream="back_de", language="de"):
    field = system.inputs["source"]
    rows = [field({"id": "1", "source_text": text, "source_language": language}, None) for text in TEXTS]
    text = Padded.from_sequences(rows, padding=field.padding)
    fields = {"source": text, "target": text}
    return Batch(fields, languages={"source": [language] * 3}, ids=["a", "b", "c"], stream=stream)


@pytest.mark.parametrize(("stream", "own", "other"), [("back_de", "de", "en"), ("back_en", "en", "de")])
def test_a_batch_is_translated_and_turned(system, tokenizer, stream, own, other):
    given = batch(system, stream, own)
    found = objective(system.eval()).prepare(given)
    symbols = {tokenizer.id(symbol) for symbol in tokenizer.symbols}
    for row, length in zip(found["source"].rows(), given["source"].lengths.tolist(), strict=True):
        first, *inner, last = row.tolist()
        assert (first, last) == (tokenizer.id(f"<{other}>"), tokenizer.eos) and not symbols & {*inner}
        assert len(inner) <= 1.3 * length + 5
    assert torch.equal(found["target"].values, given["target"].values)
    assert found.languages == {"source": [other] * 3, "target": [own] * 3}
    assert (found.ids, found.stream) == (given.ids, stream)


def test_what_was_written_becomes_the_source(system, tokenizer):
    """The translator is replaced by one that reverses its input, and says a tag and the end."""
    asked = []

    def reversed_text(batch, search):
        asked.append(batch)
        rows = [row.tolist()[1:-1] for row in batch["source"].rows()]
        return [[Hypothesis([*row[::-1], tokenizer.id("<de>"), tokenizer.eos], 0.0)] for row in rows]

    made = objective(system)
    object.__setattr__(system, "translate_batch", reversed_text)
    given = batch(system)
    found = made.prepare(given)
    assert [one.languages["target"] for one in asked] == [["en"] * 3]
    expected = [[tokenizer.id("<en>"), *row.tolist()[1:-1][::-1], tokenizer.eos] for row in given["source"].rows()]
    assert [row.tolist() for row in found["source"].rows()] == expected


def test_other_streams_stay_as_they_are(system):
    given = batch(system, "restore")
    assert objective(system).prepare(given) is given


def test_it_leaves_no_gradient_no_draw_and_no_second_copy_of_the_model(system, tmp_path):
    made = objective(system).train()
    assert {name.split(".")[0] for name in made.state_dict()} == {"system"}
    state = torch.get_rng_state()
    found = prepared(made, batch(system), Workspace(output=tmp_path, device="cpu", phase="fit"))
    assert torch.equal(state, torch.get_rng_state())  # no dropout
    assert all(parameter.grad is None for parameter in made.parameters())
    made.train()(found).parts["back_de.cross_entropy"].sum.backward()
    assert system.model.encoder.layers[0].inner.weight.grad.abs().sum() > 0


def test_what_is_too_long_to_be_read_is_cut(system, tokenizer):
    made = objective(system)
    object.__setattr__(system, "translate_batch", lambda batch, search: [[Hypothesis([5] * 40, 0.0)]] * len(batch))
    assert {len(row) for row in made.prepare(batch(system))["source"].rows()} == {42}
    system.model.target_embedding.positions = LearnedPositions(width=16, length=20)
    assert {len(row) for row in made.prepare(batch(system))["source"].rows()} == {20}


def test_the_weight_of_restoring_falls_and_that_of_back_translation_stays():
    vocabulary = "!new:tests.recipes.test_recipes.Vocabulary {pieces: 100, tags: [de, en]}"
    with torch.device("meta"):
        fit = Recipe.load("almanac/unsupervised", {"tokenizer": vocabulary}).build("fit")
    scheduled = Scheduled(fit.objective, fit.scheduled)
    weights = {}
    for update in (1, 200, 400, 800, 1200):
        scheduled.at(update)
        weights[update] = {part.prefix: part.weight for part in fit.objective.parts}
    assert [found["restore."] for found in weights.values()] == pytest.approx([0.99775, 0.55, 0.1, 0.0505, 0.001])
    assert {found["back."] for found in weights.values()} == {1.0}


def test_what_cannot_be_is_refused(system, tmp_path):
    with pytest.raises(UsageError, match="stream 'back_de' is to be translated into 'fr', .* only de and en"):
        objective(system, into={"back_de": "fr"})
    with pytest.raises(UsageError, match="no task for stream 'back_fr'"):
        objective(system, into={"back_fr": "en"})
    sound = System(**system.arguments | {"inputs": {"speech": SpeechField()}})
    with pytest.raises(UsageError, match="reads one text, not speech"):
        objective(sound)
    path = train_sentencepiece(["xyz"] * 9, tmp_path / "t.model", kind="char", size=280)
    others = SentencePieceTokenizer(model=str(path), tags=["de", "en"])
    two = System(**system.arguments | {"output": TextField(column="target_text", tokenizer=others)})
    with pytest.raises(UsageError, match="one tokenizer for what is read and what is written"):
        objective(two)
