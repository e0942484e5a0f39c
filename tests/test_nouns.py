"""The nouns hold what they were made for: three made-up systems that stress them.

One has two memories (and its own way to add them up), one has no Generator at all, one has a loss of several parts and
its own ``prepare`` (tests/shared/training/test_fit.py trains that one).
"""

import numpy as np
import pytest
import torch
from torch import nn

from shared import described
from shared.batch import Batch
from shared.corpus.fields import TextField
from shared.corpus.loader import collate
from shared.described import Described
from shared.generator import Encoding, Generator, Hypothesis
from shared.nn.embeddings import TextEmbedding
from shared.nn.heads import CtcHead, TiedProjection
from shared.nn.layer import Layer
from shared.nn.positions import SinusoidalPositions
from shared.nn.transformer import Decoder, Encoder
from shared.nn.translator import Translator
from shared.objectives import CrossEntropy, Ctc, EncoderDecoderObjective
from shared.padded import Padded
from shared.search import BeamSearch, CtcGreedySearch, GreedySearch, Rules
from shared.systems.system import System
from shared.text.piece_model import train_sentencepiece
from shared.text.tokenizer import SentencePieceTokenizer

WORDS = ["abc", "bca", "cab", "aabb", "ccab", "abcabc"]


@pytest.fixture(autouse=True)
def rooms(monkeypatch):
    monkeypatch.setattr(described, "PACKAGES", ("shared", "mt", "st", __name__))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    model = train_sentencepiece(WORDS * 9, tmp_path_factory.mktemp("t") / "t.model", kind="char", size=262)
    return SentencePieceTokenizer(model=str(model), tags=["de", "en"])


def embedding(tokenizer):
    return TextEmbedding(
        vocabulary=tokenizer.size,
        width=16,
        padding=tokenizer.pad,
        positions=SinusoidalPositions(width=16),
        dropout=0.0,
    )


def layer(kind=Layer, **options):
    return kind(width=16, heads=2, feedforward=32, dropout=0.0, **options)


def batch(tokenizer, words, *, others=None):
    rows = [
        {"id": str(i), "source_text": w, "source_language": "en", "target_text": w[::-1], "target_language": "de"}
        for i, w in enumerate(words)
    ]
    for row, other in zip(rows, others or words, strict=True):
        row["second_text"] = other
    fields = {
        "source": TextField(column="source_text", tokenizer=tokenizer),
        "second": TextField(column="second_text", tokenizer=tokenizer, language_column="source_language"),
        "target": TextField(column="target_text", tokenizer=tokenizer),
    }
    return collate(rows, fields, np.random.default_rng(0))


# -- two memories ----------------------------------------------------------------------------------------------------


class Mixing(Layer):
    """Adds up its memories with weights of its own."""

    def combine(self, attended):
        return 0.25 * attended["source"] + 0.75 * attended["second"]


class TwoMemories(Translator):
    """Encodes two fields, each to a memory; the decoder attends to both."""

    def encode(self, batch, field=None):
        one, two = (super(TwoMemories, self).encode(batch, name).memories["source"] for name in ("source", "second"))
        return Encoding({"source": one, "second": two})


def two_memories(tokenizer):
    torch.manual_seed(0)
    target = embedding(tokenizer)
    model = TwoMemories(
        embeddings={"source": embedding(tokenizer), "second": embedding(tokenizer)},
        encoder=Encoder(layer=layer(), layers=1),
        target_embedding=target,
        decoder=Decoder(layer=layer(Mixing, memories=["source", "second"]), layers=2),
        projection=TiedProjection(embedding=target),
    )
    return System(
        model=model,
        inputs={
            "source": TextField(column="source_text", tokenizer=tokenizer),
            "second": TextField(column="second_text", tokenizer=tokenizer, language_column="source_language"),
        },
        output=TextField(column="target_text", tokenizer=tokenizer),
        source_languages=["en"],
        target_languages=["de"],
    )


def test_two_memories_train_search_and_come_back_from_disk(tokenizer, tmp_path):
    system = two_memories(tokenizer)
    assert isinstance(system.model, Generator)
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy(smoothing=0.0)])
    data = batch(tokenizer, WORDS, others=WORDS[::-1])
    loss = objective(data)
    loss.total().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in system.model.decoder.parameters())
    system.eval()
    search = BeamSearch(beam=3, rules=Rules(maximum_length_extra=6))
    before = system.translate_batch(data, search)
    swapped = system.translate_batch(batch(tokenizer, WORDS, others=WORDS), search)
    assert [h[0].score for h in before] != [h[0].score for h in swapped]  # the second memory is heard
    assert {type(one) for h in before for one in h} == {Hypothesis}
    assert type(system.model.decoder.layers[1]) is Mixing
    system.save(tmp_path / "model")
    after = System.load(tmp_path / "model").translate_batch(data, search)
    assert [[h.tokens for h in one] for one in after] == [[h.tokens for h in one] for one in before]


def test_the_weights_of_the_memories_are_the_layers_own(tokenizer):
    system = two_memories(tokenizer).eval()
    mixing = system.model.decoder.layers[0]
    plain = layer(memories=["source", "second"])
    plain.load_state_dict(mixing.state_dict())
    x = torch.randn(2, 3, 16)
    memories = {name: Padded(torch.randn(2, 4, 16), torch.tensor([4, 2])) for name in ("source", "second")}
    for weights, chosen in ((0.25, "source"), (0.75, "second")):
        seen = {}
        plain.combine = lambda attended, seen=seen: seen.update(attended) or sum(attended.values())
        plain(x, memories=memories, causal=True)
        assert weights * seen[chosen].abs().sum() > 0
    expected = 0.25 * seen["source"] + 0.75 * seen["second"]
    torch.testing.assert_close(mixing.combine(seen), expected)


# -- no generator ----------------------------------------------------------------------------------------------------


class AllAtOnce(Described, nn.Module):
    """An encoder and a CTC head: the output is read off the input's states, without a decoder."""

    def __init__(self, *, embedding: TextEmbedding, encoder: Encoder, head: CtcHead) -> None:
        super().__init__()
        self.embedding, self.encoder = embedding, encoder
        self.heads = nn.ModuleDict({"ctc": head})

    def encode(self, batch, field=None):
        source = batch["source"]
        twice = Padded(source.values.repeat_interleave(2, dim=1), source.lengths * 2)
        states, _ = self.encoder(self.embedding(twice))
        return Encoding({"source": states}, {f"tap.{self.heads['ctc'].tap}": states.values})

    def tap(self, encoding, number):
        return Padded(encoding.extras[f"tap.{number}"], encoding.memories["source"].lengths)


class AllAtOnceSystem(System):
    """Overrides the one method that knows of searching."""

    def translate_batch(self, batch: Batch, search: object) -> list[list[Hypothesis]]:
        head = self.model.heads["ctc"]
        states = self.model.tap(self.model.encode(batch), head.tap)
        found = CtcGreedySearch().decode(head.log_probabilities(states), blank=head.blank)
        return [
            [Hypothesis(h.tokens, h.score, {self.output_name: self.output.tokenizer.decode(h.tokens)}) for h in some]
            for some in found
        ]


def test_a_system_without_a_generator_learns_and_translates(tokenizer, tmp_path):
    torch.manual_seed(0)
    model = AllAtOnce(
        embedding=embedding(tokenizer),
        encoder=Encoder(layer=layer(), layers=2),
        head=CtcHead(tap=2, width=16, vocabulary=tokenizer.size, blank=tokenizer.blank),
    )
    assert not isinstance(model, Generator)
    system = AllAtOnceSystem(
        model=model,
        inputs={"source": TextField(column="source_text", tokenizer=tokenizer)},
        output=TextField(column="target_text", tokenizer=tokenizer),
        source_languages=["en"],
        target_languages=["de"],
    )
    objective = EncoderDecoderObjective(system=system, parts=[Ctc(field="target")])
    data = batch(tokenizer, WORDS)
    optimizer = torch.optim.Adam(objective.parameters(), lr=0.01)
    for _ in range(250):
        optimizer.zero_grad()
        objective(data).total().backward()
        optimizer.step()
    assert system.hypotheses(["abc", "", "ccab"])[1][0].texts == {"translation": ""}
    assert [h[0].texts["translation"] for h in system.hypotheses(WORDS)] == [word[::-1] for word in WORDS]
    system.save(tmp_path / "model")
    again = System.load(tmp_path / "model")
    assert type(again) is AllAtOnceSystem
    assert again.translate("abcabc", search=GreedySearch()) == "cbacba"
