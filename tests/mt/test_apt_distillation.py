"""Distillation from a language model, against dense distributions and loops; encoders as teachers of states."""

import pytest
import torch

from dragoman import DataError, System, UsageError
from dragoman.mt.apt_distillation import Taught
from dragoman.shared.batches.loader import Loader
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.joined import JoinedEncoder
from dragoman.shared.nn.translator import EncoderModel, LanguageModel
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.objectives.teacher import Teacher
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.pretrained import tokenizer as tokenizer_of
from tests import small
from tests.shared.training.conftest import World
from tests.small import refuses


class TaughtWorld(World):
    """A world with models of its target language."""

    def __init__(self, folder):
        super().__init__(folder)
        self.folder = folder
        torch.manual_seed(7)
        self.language(16).save(folder / "language")
        self.language(8).save(folder / "narrow")
        self.encoder(EncoderModel, "source").save(folder / "encoder")
        self.encoder(JoinedEncoder, "target").save(folder / "joined")

    def embedding(self, width=16):
        return small.embedding(self.tokenizer, width, dropout=0.3)

    def language(self, width):
        read = self.embedding(width)
        decoder = small.decoder(2, width=width, feedforward=32, dropout=0.3, memories=None)
        model = LanguageModel(target_embedding=read, decoder=decoder, projection=TiedProjection(embedding=read))
        return small.system(self.tokenizer, model, inputs={})

    def encoder(self, kind, name):
        model = kind(embeddings={name: self.embedding()}, encoder=small.encoder(2, dropout=0.3))
        return EncoderSystem(model=model, inputs={name: small.text(self.tokenizer)}, source_languages=["de"])

    def teacher(self, name="language", **options):
        options = {"field": None} | options
        return Teacher(folder=str(self.folder / name), tokenizer=self.tokenizer, **options)

    def objective(self, part):
        return EncoderDecoderObjective(system=self.system(seed=1), parts=[part])

    def batch(self):
        return next(Loader(streams=[self.stream()], seed=1).epoch(0))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return TaughtWorld(tmp_path_factory.mktemp("apt"))


def sums(world, student, rows):
    """Return both terms with every distribution written out, row by row without padding."""
    known, own = System.load(world.folder / "language").model, student.model
    words, states, count = 0.0, 0.0, 0
    for source, target in zip(rows["source"].rows(), rows["target"].rows(), strict=True):
        one, prefix = small.batch(source=[source]), small.padded([target[:-1]])
        h = known.decoder(known.target_embedding(prefix)).values[0].detach()
        s = own.decode(prefix, own.encode(one, "source"))[0]
        for place in range(len(target) - 1):
            q = (h[place] @ known.target_embedding.weight.T).softmax(-1).detach()
            p = (s[place] @ own.target_embedding.weight.T).softmax(-1)
            words = words + sum(q[v] * (q[v] / p[v]).log() for v in range(len(q)))
            states = states + ((h[place] - s[place]) ** 2).sum()
            count += 1
    return words, states, count


def test_both_terms_against_distributions_written_out(world):
    student, rows = world.objective(Taught(teacher=world.teacher(), words=0.3, states=0.2)), world.batch()
    loss = student(rows)
    loss.check(student.counts(rows))
    words, states, count = sums(world, student, rows)
    parts = loss.parts
    for name, weight in (("words", 0.3), ("states", 0.2)):
        assert (parts[name].weight, int(parts[name].count)) == (weight, count)
    torch.testing.assert_close(parts["words"].sum, words, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(parts["states"].sum, states, rtol=1e-4, atol=1e-4)
    plain = world.objective(CrossEntropy())(rows)
    assert torch.equal(parts["cross_entropy"].sum, plain.parts["cross_entropy"].sum)
    total = (plain.parts["cross_entropy"].sum + 0.3 * words + 0.2 * states) / count
    torch.testing.assert_close(loss.total(), total, rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_the_terms_written_out(world):
    student, rows = world.objective(Taught(teacher=world.teacher(), words=0.3, states=0.2)), world.batch()
    parts = student(rows).parts
    words, states, _ = sums(world, student, rows)
    parameters = list(student.parameters())
    found = torch.autograd.grad(parts["words"].sum + parts["states"].sum, parameters)
    expected = torch.autograd.grad(words + states, parameters)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_what_weighs_nothing_is_left_out(world):
    rows, nowhere = world.batch(), Teacher(folder="nowhere", tokenizer=world.tokenizer, field=None)
    plain = world.objective(CrossEntropy())(rows).parts
    student = world.objective(Taught(teacher=nowhere, words=0, states=0))
    assert torch.equal(student(rows).parts["cross_entropy"].sum, plain["cross_entropy"].sum)
    assert student(rows).parts.keys() == student.counts(rows).keys() == plain.keys()
    for name, options in (("words", {"states": 0}), ("states", {"words": 0})):
        student = world.objective(Taught(teacher=world.teacher(), prefix="x.", **options))
        loss = student(rows)
        loss.check(student.counts(rows))
        assert loss.parts.keys() == {f"x.{one}" for one in [*plain, name]}
    narrow = world.objective(Taught(teacher=world.teacher("narrow"), states=0))
    assert narrow(rows).parts["words"].sum > 0  # its width does not matter for words


@pytest.mark.parametrize(("name", "reads"), [("encoder", "source"), ("joined", "target")])
def test_an_encoder_teaches_the_state_before_a_token_its_own_of_it(world, name, reads):
    part = Taught(teacher=world.teacher(name, field="target", reads=reads), words=0)
    student, rows = world.objective(part), world.batch()
    model, own = EncoderSystem.load(world.folder / name).model, student.model
    total = 0.0
    for source, target in zip(rows["source"].rows(), rows["target"].rows(), strict=True):
        known = model.encoder(model.embeddings[reads](small.padded([target])))[0].values[0]
        one, prefix = small.batch(source=[source]), small.padded([target[:-1]])
        states = own.decode(prefix, own.encode(one, "source"))[0]
        for place in range(len(target) - 1):
            total += ((states[place] - known[place + 1]) ** 2).sum().item()
    assert student(rows).parts["states"].sum.item() == pytest.approx(total, rel=1e-4)


def test_the_tokenizer_of_a_language_model_is_that_of_its_output(world):
    assert tokenizer_of(folder=str(world.folder / "language"), name="output").fingerprint == world.tokenizer.fingerprint
    refuses(UsageError, "this model writes nothing", tokenizer_of, folder=str(world.folder / "encoder"), name="output")


def test_what_cannot_teach_is_refused(world):
    rows = world.batch()
    refuses(UsageError, "states must be at least 0, not -1", lambda: Taught(teacher=world.teacher(), states=-1))
    for name, options, message in (
        ("target", {}, "words: a teacher that reads 'target' has no distributions"),
        ("source", {"words": 0}, "the teacher must read 'target', not 'source'"),
    ):
        encoder = world.teacher("encoder", field=name, reads="source")
        refuses(UsageError, message, Taught, teacher=encoder, **options)
    narrow = world.objective(Taught(teacher=world.teacher("narrow"), words=0))
    refuses(UsageError, "have the width 16, those of the teacher .*narrow 8", narrow, rows)
    message = "this teacher is an encoder, which writes nothing"
    refuses(DataError, message, world.teacher("encoder", field="source").decoded, rows, rows["target"])
    silent = world.objective(Taught(teacher=world.teacher("encoder")))
    refuses(DataError, "reads source: it is no language model", silent, rows)
    refuses(DataError, "reads nothing, not 'source'", lambda: world.teacher("language", field="source").states(rows))
    refuses(UsageError, "a language model has no states of what it reads", lambda: world.teacher().states(rows))
    refuses(UsageError, "cannot call one 'source'", world.teacher, reads="source")
