"""The nouns hold what they were made for: made-up systems that stress them.

One has two memories (and its own way to add them up), one has no Generator at all, one writes two texts in one pass,
one shrinks between head and memory and has a part that reads two encodings, one has a loss of several parts and its own
``prepare`` (tests/shared/training/test_fit.py trains that one). Others stand with what they stress: streams that lack
each other's fields in tests/shared/training/two_processes.py, a teacher in tests/shared/objectives/test_teacher.py.
"""

import numpy as np
import pytest
import torch
from torch import nn

from dragoman import BeamSearch, CtcGreedySearch, GreedySearch, Manifest, Rules, System
from dragoman.shared import described
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import collate
from dragoman.shared.batches.stream import Budget
from dragoman.shared.described import Described
from dragoman.shared.evaluation.scoring import evaluate_system
from dragoman.shared.generator import Encoding, Generator, Hypothesis
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import CtcHead, head_log_probabilities, head_logits
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import Translator
from dragoman.shared.objectives import CrossEntropy, Ctc, EncoderDecoderObjective, Part, Term
from dragoman.shared.padded import Padded
from tests import small

WORDS = ["abc", "bca", "cab", "aabb", "ccab", "abcabc"]


@pytest.fixture(autouse=True)
def rooms(monkeypatch):
    monkeypatch.setattr(described, "PACKAGES", (*described.PACKAGES, __name__))


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(WORDS * 9, size=262)


def embedding(tokenizer):
    return small.embedding(tokenizer)


def layer(kind=Layer, **options):
    return kind(width=16, heads=2, feedforward=32, dropout=0.0, **options)


def batch(tokenizer, words, *, others=None):
    rows = [small.row(i, w, w[::-1]) for i, w in enumerate(words)]
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
    vectors = {"source": embedding(tokenizer), "second": embedding(tokenizer)}
    decoder = Decoder(layer=layer(Mixing, memories=["source", "second"]), layers=2)
    model = small.translator(tokenizer, cls=TwoMemories, embeddings=vectors, decoder=decoder)
    inputs = {"source": TextField(column="source_text", tokenizer=tokenizer)}
    inputs["second"] = TextField(column="second_text", tokenizer=tokenizer, language_column="source_language")
    return small.system(tokenizer, model, inputs=inputs)


def test_two_memories_train_search_and_come_back_from_disk(tokenizer, tmp_path):
    system = two_memories(tokenizer)
    assert isinstance(system.model, Generator)
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy(label_smoothing=0.0)])
    data = batch(tokenizer, WORDS, others=WORDS[::-1])
    objective(data).total().backward()
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
    mixing = two_memories(tokenizer).eval().model.decoder.layers[0]
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
        return Encoding({"source": states}, {f"tap.{self.heads['ctc'].tap}": states})

    def tap(self, encoding, name):
        return encoding.extras[f"tap.{name}"]


class AllAtOnceSystem(System):
    """Overrides the one method that knows of searching."""

    def translate_batch(self, batch: Batch, search: object) -> list[list[Hypothesis]]:
        head = self.model.heads["ctc"]
        scores = head_log_probabilities(self.model, self.model.encode(batch), "ctc")
        found = CtcGreedySearch().decode(scores, blank=head.blank)
        decode, name = self.output.tokenizer.decode, self.output_name
        return [[Hypothesis(h.tokens, h.score, {name: decode(h.tokens)}) for h in some] for some in found]


def test_a_system_without_a_generator_learns_and_translates(tokenizer, tmp_path):
    torch.manual_seed(0)
    head = CtcHead(tap=2, width=16, vocabulary=tokenizer.size, blank=tokenizer.blank)
    model = AllAtOnce(embedding=embedding(tokenizer), encoder=Encoder(layer=layer(), layers=2), head=head)
    assert not isinstance(model, Generator)
    system = small.system(tokenizer, model, cls=AllAtOnceSystem)
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


# -- two texts of one pass ---------------------------------------------------------------------------------------------


class WithTranscript(System):
    """Writes a translation with its decoder, and a transcript with the CTC head of its encoder."""

    @property
    def texts(self):
        return {**super().texts, "transcript": self.ctc_output}

    def translate_batch(self, batch: Batch, search: object, **options: object) -> list[list[Hypothesis]]:
        scores = head_log_probabilities(self.model, self.model.encode(batch), "ctc")
        heard = CtcGreedySearch().decode(scores, blank=self.model.heads["ctc"].blank)
        transcripts = [{"transcript": self.ctc_output.tokenizer.decode(one[0].tokens)} for one in heard]
        pairs = zip(super().translate_batch(batch, search, **options), transcripts, strict=True)
        return [[Hypothesis(h.tokens, h.score, h.texts | transcript) for h in found] for found, transcript in pairs]


def test_each_of_two_texts_is_scored_against_its_own_column(tokenizer, tmp_path):
    torch.manual_seed(0)
    heads = {"ctc": CtcHead(tap=1, width=16, vocabulary=tokenizer.size, blank=tokenizer.blank)}
    model = small.translator(tokenizer, encoder=small.encoder(2, taps=[1]), heads=heads)
    source, output = (TextField(column=f"{side}_text", tokenizer=tokenizer) for side in ("source", "target"))
    texts = {"inputs": {"source": source}, "output": output, "ctc_output": source}
    system = WithTranscript(model=model, **texts, source_languages=["en"], target_languages=["de"])
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy(label_smoothing=0.0), Ctc(field="source")])
    # A head finds one symbol for a letter here, so that none of the words has a letter twice in a row.
    words = ["abc", "bca", "cab", "acab", "cabc", "bcab"]
    rows = [small.row(w, w, w[::-1]) for w in words]
    data = collate(rows, {"source": source, "target": output}, np.random.default_rng(0))
    optimizer = torch.optim.Adam(objective.parameters(), lr=0.01)
    for _ in range(250):
        optimizer.zero_grad()
        objective(data).total().backward()
        optimizer.step()
    system.save(tmp_path / "model")
    again = System.load(tmp_path / "model")
    texts = [h[0].texts for h in again.hypotheses(["cab", ""])]
    assert texts == [{"translation": "bac", "transcript": "cab"}, {"translation": "", "transcript": ""}]
    found = evaluate_system(
        again,
        Manifest.write(tmp_path / "test.arrow", rows),
        search=GreedySearch(rules=Rules(maximum_length_extra=6)),
        budget=Budget(rows=4),
        metrics=["cer"],
        workspace=Workspace(output=tmp_path, device="cpu", noprogressbar=True, workers=0),
        texts={"transcript": ["cer"]},
    )
    wanted = {"translation": [word[::-1] for word in words], "transcript": words}
    assert {one.text: one.outputs.hypotheses for one in found.by_text} == wanted
    assert [one.language for one in found.by_text] == ["de", "en"]
    assert [score.value for one in found.by_text for score in one.scores] == [0.0, 0.0]


# -- states of two lengths, read by parts of two encodings -------------------------------------------------------------


class Shrinking(Translator):
    """Its head reads embedded input, and its decoder a memory of every other state of it, weighed by the head."""

    @property
    def taps(self):
        return [*super().taps, "embedded"]

    def encode(self, batch, field=None):
        embedded = self.embed(batch, field)
        logits = head_logits(self, Encoding({}, {"tap.embedded": embedded}), "ctc")
        weighed = Padded(embedded.values * logits.values[..., :1].sigmoid(), embedded.lengths)
        encoding = self.encode_embedded(Padded(weighed.values[:, ::2], (embedded.lengths + 1) // 2))
        return Encoding(encoding.memories, encoding.extras | {"tap.embedded": embedded, "logits.ctc": logits})


class Distance(Part):
    """The squared distance between the mean memories of two fields, per sentence."""

    def counts(self, batch):
        return {"distance": torch.tensor(len(batch))}

    def evaluate(self, model, batch, encode):
        one, other = (encode(name).memories["source"] for name in ("source", "second"))
        means = [(states.values * states.mask[..., None]).sum(1) / states.lengths[:, None] for states in (one, other)]
        return {"distance": Term((means[0] - means[1]).square().sum(), self.counts(batch)["distance"], 0.5)}


def shrinking(tokenizer):
    torch.manual_seed(0)
    vectors = {"source": embedding(tokenizer), "second": embedding(tokenizer)}
    head = CtcHead(tap="embedded", width=16, vocabulary=tokenizer.size, blank=tokenizer.blank, dropout=0.5)
    return small.system(tokenizer, small.translator(tokenizer, cls=Shrinking, embeddings=vectors, heads={"ctc": head}))


def test_a_head_reads_states_that_are_longer_than_the_memory(tokenizer, tmp_path):
    system = shrinking(tokenizer)
    model, data = system.model, batch(tokenizer, WORDS, others=WORDS[::-1])
    encoding = model.encode(data, "source")
    embedded, memory = model.tap(encoding, "embedded"), encoding.memories["source"]
    assert torch.equal(embedded.lengths, data["source"].lengths)
    assert torch.equal(memory.lengths, (embedded.lengths + 1) // 2)
    logits = head_logits(model, encoding, "ctc")
    assert head_logits(model, encoding, "ctc") is logits  # its dropout was drawn once
    assert torch.equal(logits.lengths, embedded.lengths)
    assert not torch.equal(model.heads["ctc"](embedded.values), logits.values)
    rows = torch.tensor([4, 0, 0])
    for name, extra in encoding.select(rows).extras.items():
        assert torch.equal(extra.values, encoding.extras[name].values[rows])
        assert torch.equal(extra.lengths, encoding.extras[name].lengths[rows])
    with pytest.raises(ValueError, match="head 'ctc' reads the states of 'embedded', but the model's taps are .1."):
        Translator(**(model.arguments | {"encoder": Encoder(layer=layer(), layers=1, taps=[1])}))
    system.save(tmp_path / "model")
    again = System.load(tmp_path / "model").model.eval()
    found, wanted = (head_logits(one, one.encode(data, "source"), "ctc") for one in (again, model.eval()))
    assert torch.equal(found.values, wanted.values)


def test_parts_read_two_encodings_and_the_logits_that_shaped_one(tokenizer):
    system = shrinking(tokenizer)
    parts = [CrossEntropy(source="source"), Ctc(source="source", field="target"), Distance()]
    objective = EncoderDecoderObjective(system=system, parts=parts)
    data = batch(tokenizer, WORDS, others=WORDS[::-1])
    encoded, calls = [], Shrinking.encode

    def counted(self, batch, field=None):
        encoded.append(field)
        return calls(self, batch, field)

    Shrinking.encode = counted
    try:
        loss = objective(data)
    finally:
        Shrinking.encode = calls
    assert encoded == ["source", "second"]
    loss.check(objective.counts(data))
    loss.total(objective.counts(data)).backward()
    assert system.model.heads["ctc"].projection.weight.grad.abs().sum() > 0
    assert system.model.embeddings["second"].tokens.weight.grad.abs().sum() > 0
