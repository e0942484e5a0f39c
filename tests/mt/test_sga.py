"""The passes, losses, noise and loop of SGA against loops and torch; tests/parity/test_prompts.py has transformers."""

import math
from itertools import groupby

import pytest
import torch
from torch.nn import functional as F

from dragoman import CtcGreedySearch, CtcPrefixSearch, DataError, Recipe, System, UsageError
from dragoman.mt.sga import LOOPS, Prompt, Refinement, SemanticGenerator, SgaSystem, corrupted
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.linear import store_for_search
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.objectives import Ctc
from dragoman.shared.padded import Padded
from dragoman.shared.systems.pretrained import load
from tests import small
from tests.small import refuses

WIDTH, VOCABULARY, PROMPTS = 16, 30, 3
BLANK, MASK = 6, 4
ROWS = {"source": [4, 6, 2], "target": [5, 3, 4]}


def reader(vocabulary=VOCABULARY, positions=20, heads=True, name="source"):
    embedding = small.embedding(vocabulary, WIDTH, positions, dropout=0.3)
    encoder = small.encoder(3, feedforward=24, activation="gelu", dropout=0.3, attention_dropout=0.2)
    head = MaskedTokenHead(width=WIDTH, projection=TiedProjection(embedding=embedding, bias=True))
    return EncoderModel(embeddings={name: embedding}, encoder=encoder, heads={"masked": head} if heads else None)


def generator(seed=1, **changes):
    """Return a model whose prompts and blank are felt."""
    torch.manual_seed(seed)
    model = SemanticGenerator(**{"reader": reader(), "blank": BLANK, "mask": MASK, "prompts": PROMPTS} | changes)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("keys_values") or name == "head.vector":
                parameter.normal_()
        model.reader.heads["masked"].projection.bias.normal_()
    return model


def batch(rows=ROWS):
    return small.drawn_batch(rows, VOCABULARY, 7)


def objective(model):
    return small.objective(model, *(Ctc(field="target", head=name, prefix=f"{name}_") for name in model.heads))


def test_a_sentence_alone_is_as_in_a_batch():
    model, rows = generator().eval(), batch()
    extras, last = model.encode(rows).extras, model.refined(rows, 3)
    for number, length in enumerate(ROWS["source"]):
        one = small.alone(rows, number)
        for name, logits in model.encode(one).extras.items():
            assert logits.values.shape[1] == int(extras[name].lengths[number]) == 2 * length
            torch.testing.assert_close(logits.values[0], extras[name].rows()[number], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(model.refined(one, 3).values[0], last.rows()[number], atol=1e-5, rtol=1e-5)


def test_every_layer_guides_its_own():
    """A change of the states of one layer's guide changes the output, and every layer is given another guide."""
    model, rows = generator().eval(), batch()
    states, guide = model.guide(rows["source"])
    _, tapped = model.reader.encoder(model.reader.embeddings["source"](rows["source"]), prompts=model.semantic())
    assert len(guide) == 3 and torch.equal(states.values, tapped[3].values)
    for number, prompts in enumerate(guide, start=1):
        expected = F.linear(tapped[number].values, model.keys.weight, model.keys.bias)
        torch.testing.assert_close(prompts.keys, expected)
        assert torch.equal(prompts.mask, rows["source"].mask)


def test_both_losses_against_torch():
    model, rows = generator().eval(), batch()
    loss = objective(model)(rows)
    extras = model.encode(rows).extras
    total = 0.0
    for name in ("alignment", "denoising"):
        expected = 0.0
        for number in range(3):
            labels = rows["target"].rows()[number][1:-1]  # without the symbols around them
            scores = extras[f"logits.{name}"].rows()[number].log_softmax(-1)[:, None]
            sizes = torch.tensor([len(scores)]), torch.tensor([len(labels)])
            expected += F.ctc_loss(scores, labels[None], *sizes, blank=BLANK, reduction="sum", zero_infinity=True)
        torch.testing.assert_close(loss.parts[f"{name}_ctc"].sum, expected)
        total += expected / (sum(ROWS["target"]) - 6)
    torch.testing.assert_close(loss.total(), total)


def test_gradients_stay_in_their_pass():
    model, rows = generator(noise=0.0).train(), batch()
    losses = objective(model)(rows).parts
    of = dict(model.named_parameters())
    learning = {name: parameter for name, parameter in of.items() if parameter.requires_grad}
    expected = {"semantic", "alignment", "denoising", "keys", "values", "head"}
    assert {name.partition(".")[0] for name in learning} == expected
    options = {"inputs": [*learning.values()], "retain_graph": True, "allow_unused": True}
    for part, without in (("alignment", "denoising"), ("denoising", "alignment")):
        found = torch.autograd.grad(losses[f"{part}_ctc"].sum, **options)
        untouched = {name for name, gradient in zip(learning, found, strict=True) if gradient is None}
        assert untouched == {f"{without}.keys_values", f"{without}.scale"}
        assert all(gradient is None or bool(gradient.abs().sum()) for gradient in found)


def test_the_reader_neither_learns_nor_drops_out():
    model, rows = generator(noise=0.0), batch()
    expected = model.eval().encode(rows).extras
    for name, logits in model.train().encode(rows).extras.items():
        assert torch.equal(logits.values, expected[name].values)
    same = small.unmoved(objective(model), rows, model.reader)
    assert {name for name in model.state_dict() if name.startswith("reader.")} == same


def test_prompts_begin_and_are_scaled_as_published():
    torch.manual_seed(1)
    prompt = Prompt(layers=40, length=5, width=WIDTH)
    bound = math.sqrt(6 / (5 + WIDTH))  # Glorot and Bengio 2010, of a matrix (P, D)
    found = prompt.keys_values.detach()
    assert bound * 0.98 < float(found.abs().max()) < bound
    assert float(found.var()) == pytest.approx(bound**2 / 3, rel=0.05)
    for scale, factor in ((0.5, 1.0), (1.0, 1.0), (2.5, 2.5)):
        with torch.no_grad():
            prompt.scale.fill_(scale)
        for number, one in enumerate(prompt()):
            torch.testing.assert_close(one.keys, found[number, :1] * factor)
            torch.testing.assert_close(one.values, found[number, 1:] * factor)
            assert one.mask is None


def test_the_blank_alone_is_scored_by_a_new_vector():
    model = generator()
    head, states = model.reader.heads["masked"], torch.randn(2, 5, WIDTH)
    expected, found = head(states), model.head(states)
    others = [symbol for symbol in range(VOCABULARY) if symbol != BLANK]
    assert torch.equal(found[..., others], expected[..., others])
    hidden = head.norm(F.gelu(head.dense(states)))
    torch.testing.assert_close(found[..., BLANK], torch.einsum("bld,d->bl", hidden, model.head.vector))
    with torch.no_grad():
        model.head.bias.fill_(2)
    torch.testing.assert_close(model.head(states)[..., BLANK], found[..., BLANK] + 2)


def test_the_second_best_stands_for_a_blank():
    torch.manual_seed(2)
    logits = torch.randn(3, 8, VOCABULARY)
    logits[:, ::2, BLANK] = 9.0
    logits[:, 1::2, BLANK] = -9.0
    found = generator().proposed(Padded(logits, torch.tensor([8, 3, 5])))
    for row in range(3):
        for place in range(8):
            order = sorted(range(VOCABULARY), key=lambda symbol: -float(logits[row, place, symbol]))
            assert int(found.values[row, place]) == (order[1] if place % 2 == 0 else order[0]) != BLANK
    assert found.lengths.tolist() == [8, 3, 5]


# -- noise ----------------------------------------------------------------------------------------------------------


def test_noise_has_the_published_shares():
    torch.manual_seed(1)
    size = 100_000
    tokens = Padded(torch.arange(1, 101).repeat(20_000, 1), torch.full((20_000,), 100))
    found = corrupted(tokens, most=0.2, mask=0, vocabulary=size).values
    changed = found != tokens.values
    masked, repeated = found == 0, changed & (found > 0) & (found <= 100)
    count = changed.numel()
    assert int(masked.sum()) / count == pytest.approx(0.1 * 0.4, rel=0.03)
    assert int(repeated.sum()) / count == pytest.approx(0.1 * 0.3 * 0.99, rel=0.03)
    assert int((found > 100).sum()) / count == pytest.approx(0.1 * 0.3, rel=0.03)
    drawn = found[found > 100].double()
    assert float(drawn.mean()) == pytest.approx(size / 2, rel=0.02) and int(drawn.max()) < size
    shares = changed.float().mean(1)  # of a sentence, evenly between 0 and 0.2
    assert float(shares.std()) == pytest.approx(math.sqrt(0.04 / 12 + 0.1 / 100), rel=0.1)


def test_noise_takes_tokens_from_the_sentence_alone():
    torch.manual_seed(1)
    values = torch.tensor([[1, 2, 3, 90, 90, 90], [4, 90, 90, 90, 90, 90]]).repeat(5000, 1)
    tokens = Padded(values, torch.tensor([3, 1]).repeat(5000))
    found = corrupted(tokens, most=1.0, mask=0, vocabulary=1)  # what is drawn is 0 as well
    for row, (length, before) in enumerate(zip(tokens.lengths.tolist(), values.tolist(), strict=True)):
        assert {*found.values[row, :length].tolist()} <= {0, *before[:length]}
    assert (found.values[::2, :3] != values[::2, :3]).any(0).all()
    counts = [int((found.values[::2, 0] == token).sum()) for token in (2, 3)]  # each token is as likely as another
    assert counts == [pytest.approx(5000 * 0.5 * 0.3 / 3, rel=0.25)] * 2
    empty = Padded(torch.zeros(1, 2, dtype=torch.int64), torch.tensor([0]))
    assert corrupted(empty, most=1.0, mask=0, vocabulary=1).lengths.tolist() == [0]


def test_noise_is_for_training_alone(monkeypatch):
    model, rows = generator(noise=0.5), batch()
    read, denoise = [], model.denoise
    monkeypatch.setattr(model, "denoise", lambda guide, tokens: read.append(tokens) or denoise(guide, tokens))
    proposed = model.proposed(model.eval().encode(rows).extras["logits.alignment"])
    assert torch.equal(read[-1].values, proposed.values)
    found = [model.train().encode(rows) and read[-1].values for _ in range(20)]
    assert any(not torch.equal(one, proposed.values) for one in found)


# -- the loop ---------------------------------------------------------------------------------------------------------


def scripted(monkeypatch, paths):
    """Return a model that writes given paths of two tokens, one after another, and a list of what it has read."""
    model, read = generator().eval(), []

    def logits(path):
        return Padded(F.one_hot(torch.tensor([path]), VOCABULARY).float(), torch.tensor([len(path)]))

    def denoise(guide, tokens):
        read.append(tokens.values[0].tolist())
        return logits(paths[len(read)])

    monkeypatch.setattr(model, "align", lambda guide, lengths: logits(paths[0]))
    monkeypatch.setattr(model, "denoise", denoise)
    return model, read


ONE = {"source": [1]}


@pytest.mark.parametrize(
    ("paths", "most", "read", "written"),
    [
        ([[8, 9], [8, 8], [8, 8], [1, 1]], 10, [[8, 9], [8, 8]], [8, 8]),  # nothing changes any more
        ([[8, 9], [9, 8]] * 5, 5, [[8, 9], [9, 8], [8, 9], [9, 8], [8, 9]], [9, 8]),  # a cycle, up to the maximum
        ([[8, 9], [9, 8]], 0, [], [8, 9]),  # alignment alone
    ],
)
def test_when_the_loop_ends_and_what_it_has_read(monkeypatch, paths, most, read, written):
    model, seen = scripted(monkeypatch, paths)
    assert model.refined(batch(ONE), most).values.argmax(-1).tolist() == [written]
    assert seen == read


def test_padding_does_not_keep_the_loop_going(monkeypatch):
    model, rows = generator().eval(), batch({"source": [1, 2]})
    calls = []

    def denoise(guide, tokens):
        calls.append(1)
        path = torch.tensor([[8, 9, len(calls), 7], [8, 9, 8, 9]])  # the third token of the first row is padding
        return Padded(F.one_hot(path, VOCABULARY).float(), torch.tensor([2, 4]))

    monkeypatch.setattr(model, "denoise", denoise)
    model.refined(rows, 10)
    assert len(calls) == 2


# -- the system -------------------------------------------------------------------------------------------------------


def system(**changes):
    tokenizer = System.load(small.GOLDEN).output.tokenizer
    fields = {side: TextField(column=f"{side}_text", tokenizer=tokenizer, prefix=["<s>"]) for side in ROWS}
    read = reader(tokenizer.size, positions=60)
    model = generator(reader=read, blank=tokenizer.blank, mask=tokenizer.mask, **changes)
    with torch.no_grad():
        model.head.vector.mul_(3)
    options = {"inputs": {"source": fields["source"]}, "output": fields["target"]}
    return small.system(tokenizer, model, cls=SgaSystem, **options).eval()


def rows_of(own, texts):
    field = own.inputs["source"]
    tokens = small.padded([field(small.row(1, text, target_language="de"), None) for text in texts], field.padding)
    return Batch({"source": tokens}, {"target": ["de"] * len(texts)})


@torch.no_grad()
def test_outputs_are_collapsed_paths():
    own = system()
    rows = rows_of(own, ["one two three", "two", "seven eight"])
    blank, seen = own.output.tokenizer.blank, 0
    for loops in (0, 1, LOOPS, 4):
        logits = own.model.refined(rows, loops)
        for row, [found] in zip(logits.rows(), own.translate_batch(rows, Refinement(loops=loops)), strict=True):
            path = [max(range(len(scores)), key=lambda symbol: scores[symbol]) for scores in row.tolist()]
            seen += path.count(blank)
            assert found.tokens == [symbol for symbol, _ in groupby(path) if symbol != blank]
            assert found.texts == {"translation": own.output.tokenizer.decode(found.tokens)}
            best = [float(scores.log_softmax(-1).max()) for scores in row]
            assert found.score == pytest.approx(sum(best) / len(best), abs=1e-4)
    assert seen


@torch.no_grad()
def test_other_searches_work_on_the_last_loop():
    own, plain = system(), system(denoises=False)
    for one, loops in ((own, LOOPS), (plain, 0)):
        assert one.default_search().loops == loops
        rows = rows_of(one, ["one two three", "two"])
        expected = one.translate_batch(rows, Refinement(loops=loops))
        assert len(one.model.encode(rows).extras) == (2 if loops else 1)
        found = one.translate_batch(rows, CtcGreedySearch())
        assert [h.tokens for [h] in found] == [h.tokens for [h] in expected]
        many = one.translate_batch(rows, Refinement(loops=loops, search=CtcPrefixSearch(beam=4, n_best=2)))
        assert {len(hypotheses) for hypotheses in many} == {2}
    message = "has no denoising pass: decode it with 0 loops"
    refuses(UsageError, message, plain.translate_batch, rows, Refinement(loops=1))


@torch.no_grad()
def test_a_folder_keeps_its_loops(tmp_path, monkeypatch):
    """A model that was tuned with another number of loops translates with that number, and so does a changed copy."""
    own, asked = system(), []
    SgaSystem(**own.arguments | {"loops": 5}).save(tmp_path / "five")
    refined = SemanticGenerator.refined
    monkeypatch.setattr(SemanticGenerator, "refined", lambda *given: asked.append(given[-1]) or refined(*given))
    System.load(tmp_path / "five").translate(["one two"])
    load(folder=str(tmp_path / "five"), changes={"loops": 7}).save(tmp_path / "seven")
    System.load(tmp_path / "seven").translate(["one two"], search=CtcGreedySearch())  # as `dragoman translate` does
    System.load(tmp_path / "seven").translate(["one two"], search=Refinement(loops=1))
    assert asked == [5, 7, 1]
    values = {path: (text, key) for path, text, key in Recipe.load("almanac/sga", {"loops": 8}).plan["fit"].values()}
    assert {values[path] for path in values if path.endswith("system.loops")} == {("8", "loops")}
    for one in (own, system(denoises=False)):
        refuses(UsageError, "loops must be at least 0, not -1", SgaSystem, **one.arguments | {"loops": -1})


def test_no_text_is_lost_to_the_blank():
    """The word boundary that stands alone is text, which a blank of the same piece would take away."""
    own = system()
    tokenizer = own.output.tokenizer
    assert tokenizer.symbol(own.model.blank) == "<blank>"
    ids = tokenizer.encode("1 2")
    path = [symbol for id in ids for symbol in (id, own.model.blank)]
    scores = F.one_hot(torch.tensor([path]), tokenizer.size).float().log_softmax(-1)
    [[found]] = Refinement().decode(Padded(scores, torch.tensor([len(path)])), blank=own.model.blank)
    assert own.texts_of(found.tokens) == {"translation": "1 2"}


def test_a_saved_system_translates_as_before(tmp_path):
    own = system()
    texts = ["one two three", "", "two"]
    expected = own.translate(texts)
    assert expected[0] and not expected[1]
    own.save(tmp_path / "model")
    found = System.load(tmp_path / "model")
    assert found.translate(texts) == expected
    store_for_search(found)
    assert found.translate(texts) == expected


def test_logits_of_what_a_trimmed_vocabulary_keeps_do_not_change(tmp_path):
    logits = []
    for one in (systems := small.trimmed(system(), tmp_path)):
        _, guide = one.model.guide(rows_of(one, ["one two"])["source"])
        tokens = small.padded([one.output.tokenizer.encode("eins one")])
        passes = [one.model.align(guide, torch.tensor([guide[0].keys.shape[1]])), one.model.denoise(guide, tokens)]
        logits.append([found.values for found in passes])
    assert systems[1].output.tokenizer.symbol(systems[1].model.blank) == "<blank>"
    for before, after in zip(*logits, strict=True):
        torch.testing.assert_close(after, before[..., systems[1].output.tokenizer.kept])


def test_what_does_not_fit_is_refused():
    refuses(UsageError, "SemanticGenerator: prompts must be at least 1, not 0", generator, prompts=0)
    message = "the reader must have one head for masked tokens, not none"
    refuses(ValueError, message, generator, reader=reader(heads=False))
    refuses(ValueError, "the reader must read 'source' alone, not target", generator, reader=reader(name="target"))
    refuses(ValueError, "the symbol blank 30 is outside the vocabulary of 30", generator, blank=30)
    refuses(UsageError, "loops must be at least 0, not -1", Refinement, loops=-1)
    refuses(UsageError, "the model reads 'source', not 'speech'", lambda: generator().encode(batch(), "speech"))
    message = "row 1: its 'source' is too long for the model: 22 elements"
    refuses(DataError, message, generator().encode, batch({"source": [4, 11]}))
    two = system().arguments | {"target_languages": ["de", "fr"]}
    refuses(UsageError, "nothing in the source tells which of de, fr is to be written", SgaSystem, **two)
    source = TextField(column="source_text", tokenizer=two["output"].tokenizer, prefix=["<{target_language}>"])
    SgaSystem(**two | {"inputs": {"source": source}})
