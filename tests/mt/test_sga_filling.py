"""SGA that fills masks: its decoding against a plain loop, its losses against torch, its guide, system and refusals."""

import math
from itertools import groupby

import pytest
import torch
from torch.nn import functional as F

from dragoman import BeamSearch, DataError, System, UsageError
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.searching import fitting, search_for
from dragoman.mt.mask_predict import FilledTokens, MaskedDecoder, OutputLength
from dragoman.mt.sga_filling import DenoisedTokens, GuidedFiller, GuidedFillingSystem, placed
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.generator import Filler
from dragoman.shared.nn.attention import Prompts
from dragoman.shared.search.filling import FillingSearch
from dragoman.shared.systems.pretrained import load
from tests import small
from tests.mt.test_sga import BLANK, MASK, PROMPTS, VOCABULARY, reader
from tests.small import refuses

START, END, PAD, LONGEST = 1, 2, 0, 9
ROWS = {"source": [4, 6, 2], "target": [5, 9, 4]}
PLACES = [[1, 3], [2, 3, 6, 7], [1]]


def filler(seed=1, **changes):
    """Return a model whose prompts, lengths and blank are felt."""
    torch.manual_seed(seed)
    given = {"reader": reader(), "blank": BLANK, "mask": MASK, "prompts": PROMPTS, "longest": LONGEST}
    model = GuidedFiller(**given | changes)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("keys_values") or name.startswith(("head.", "lengths.")):
                parameter.normal_()
        model.projection.projection.bias.normal_()
    return model


def batch():
    """Return sources, targets with masks, where these are, and what stood there."""
    rows = small.drawn_batch(ROWS, VOCABULARY, 7)
    whole = rows["target"].rows()
    shown = [row.scatter(0, torch.tensor(some), MASK) for row, some in zip(whole, PLACES, strict=True)]
    labels = [row[some] for row, some in zip(whole, PLACES, strict=True)]
    changed = {"target": shown, "target.places": PLACES, "target.labels": labels}
    return rows.with_fields(**{name: small.padded(one) for name, one in changed.items()}), whole


def passed(model, tokens, prompts):
    """Return the last states (L, D) of tokens, one sentence, with a layer's prompts before its own keys and values."""
    reader, given = model.reader, [Prompts(keys, values) for keys, values in prompts]
    states, tapped = reader.encoder(reader.embeddings["source"](small.padded([tokens])), prompts=given)
    return states.values[0], [tapped[number].values for number in reader.encoder.taps]


def guided(model, source, name):
    """Return the keys and values of each layer in a pass: those of the source's guide, then the pass's own."""
    prompts = {one: getattr(model, one) for one in ("semantic", name)}
    trained = {one: prompt.keys_values * prompt.scale.clamp(min=1) for one, prompt in prompts.items()}
    states, layers = passed(model, source, [(keys[None], values[None]) for keys, values in trained["semantic"]])
    made = [[F.linear(layer, one.weight, one.bias) for one in (model.keys, model.values)] for layer in layers]
    return states, [
        tuple(torch.cat([guide, own[None]], dim=1) for guide, own in zip(pair, both, strict=True))
        for pair, both in zip(made, trained[name], strict=True)
    ]


def logits_of(model, source, tokens):
    """Return the logits (L, V) of masks in one sentence, by the language model's own head."""
    _, prompts = guided(model, source, "alignment")
    states, _ = passed(model, tokens, prompts)
    head = model.reader.heads["masked"]
    return F.linear(head.norm(F.gelu(head.dense(states))), head.projection.weight, head.projection.bias)


def by_loop(model, source, iterations, tries, around=(START, END), padding=PAD):
    """Return the outputs of one source and their scores, the best first: Mask-Predict without batches."""
    start, end = around
    never = (padding, end, model.mask, model.blank)
    states, _ = guided(model, source, "alignment")
    scores = F.linear(states[0], model.lengths.weight, model.lengths.bias).tolist()
    found = []
    for n in sorted(range(1, LONGEST + 1), key=lambda n: -scores[n])[:tries]:
        text, kept = [model.mask] * n, [0.0] * n
        for t in range(iterations):
            again = range(n)
            if t:
                again = sorted(range(n), key=lambda i: kept[i])[: max(1, n * (iterations - t) // iterations)]
            shown = [model.mask if i in again else token for i, token in enumerate(text)]
            logits = logits_of(model, source, torch.tensor([start, *shown, end]))[1:-1]
            for i in again:
                weights = [math.exp(x) if token != model.blank else 0.0 for token, x in enumerate(logits[i].tolist())]
                allowed = [token for token in range(model.vocabulary) if token not in never]
                text[i] = max(allowed, key=lambda token: weights[token])
                kept[i] = math.log(weights[text[i]] / sum(weights))
        found.append((text, sum(kept) / n))
    return sorted(found, key=lambda one: -one[1])


def path_by_loop(model, source, text, loops):
    """Return what denoising makes of a text, each of whose tokens it reads twice, after some loops."""
    _, prompts = guided(model, source, "denoising")
    path = [token for token in text for _ in range(2)]
    for _ in range(loops):
        states, _ = passed(model, torch.tensor(path), prompts)
        scores = model.head(states).tolist()
        ranked = [sorted(range(model.vocabulary), key=lambda symbol, row=row: -row[symbol]) for row in scores]
        path = [best if best != model.blank else second for best, second, *_ in ranked]
    return [symbol for symbol, _ in groupby(first for first, *_ in ranked) if symbol != model.blank]


@torch.no_grad()
@pytest.mark.parametrize(("iterations", "tries"), [(1, 1), (4, 3), (3, LONGEST)])
def test_filling_is_that_of_a_loop_over_single_sentences(iterations, tries):
    model, (rows, _) = filler().eval(), batch()
    search = FillingSearch(iterations=iterations, beam=tries, n_best=tries)
    found = search.search(model, rows, prefix=small.padded([[START]] * 3), end=END, padding=PAD)
    for own, source in zip(found, rows["source"].rows(), strict=True):
        expected = by_loop(model, source, iterations, tries)
        assert [one.tokens for one in own] == [[*text, END] for text, _ in expected]
        assert [one.score for one in own] == pytest.approx([score for _, score in expected], abs=1e-4)


def test_the_losses_are_those_of_a_loop():
    model, (rows, whole) = filler(noise=0.0).train(), batch()
    parts = DenoisedTokens(label_smoothing=0.0), OutputLength(weight=1.0)
    objective = small.objective(model, *parts)
    loss = objective(rows)
    loss.check(objective.counts(rows))
    filled, length, denoised = 0.0, 0.0, 0.0
    for number, source in enumerate(rows["source"].rows()):
        states, _ = guided(model, source, "alignment")
        lengths = F.linear(states[0], model.lengths.weight, model.lengths.bias)[1:]
        n = ROWS["target"][number] - 2
        length += F.cross_entropy(lengths, torch.tensor(n - 1))
        logits = logits_of(model, source, rows["target"].rows()[number])
        filled += F.cross_entropy(logits[PLACES[number]], whole[number][PLACES[number]], reduction="sum")
        best = logits.index_fill(1, torch.tensor([BLANK]), -math.inf).argmax(-1)
        text = [int((best if place in PLACES[number] else whole[number])[place]) for place in range(1, n + 1)]
        _, prompts = guided(model, source, "denoising")
        read, _ = passed(model, torch.tensor([token for token in text for _ in range(2)]), prompts)
        scores = model.head(read).log_softmax(-1)[:, None]
        sizes = torch.tensor([2 * n]), torch.tensor([n])
        denoised += F.ctc_loss(scores, whole[number][None, 1:-1], *sizes, blank=BLANK, reduction="sum")
    for name, expected in (("filled", filled), ("length", length), ("denoising_ctc", denoised)):
        torch.testing.assert_close(loss.parts[name].sum, expected, atol=1e-3, rtol=1e-5)
    assert [int(loss.parts[name].count) for name in ("filled", "length", "denoising_ctc")] == [7, 3, 12]
    torch.testing.assert_close(loss.total(), filled / 7 + length / 3 + denoised / 12, atol=1e-3, rtol=1e-5)


def test_gradients_stay_in_their_pass_and_everything_that_should_learns():
    model, (rows, _) = filler().train(), batch()
    losses = small.objective(model, DenoisedTokens(), OutputLength())(rows).parts
    learning = {name: one for name, one in model.named_parameters() if one.requires_grad}
    assert not any(name.startswith("reader.") for name in learning)
    missed = {
        "filled": {"denoising", "head", "lengths"},
        "length": {"alignment", "denoising", "head", "keys", "values"},
        "denoising_ctc": {"alignment", "lengths"},
    }
    for term, expected in missed.items():
        found = torch.autograd.grad(losses[term].sum, [*learning.values()], retain_graph=True, allow_unused=True)
        untouched = {name.partition(".")[0] for name, one in zip(learning, found, strict=True) if one is None}
        assert untouched == expected
    plain = filler(denoises=False)
    names = {name.partition(".")[0] for name, one in plain.named_parameters() if one.requires_grad}
    assert names == {"semantic", "alignment", "keys", "values", "lengths"}


def test_noise_is_for_training_alone(monkeypatch):
    model, (rows, _) = filler(noise=0.9), batch()
    read, denoise = [], model.denoise
    monkeypatch.setattr(model, "denoise", lambda guide, tokens: read.append(tokens.values) or denoise(guide, tokens))
    objective = small.objective(model, DenoisedTokens())
    for mode in (False, False, True):
        objective.train(mode)
        objective(rows)
    assert torch.equal(read[0], read[1]) and not torch.equal(read[1], read[2])
    assert all(bool((one[:, ::2] == one[:, 1::2]).all()) for one in read[:2])  # each token twice


def test_values_are_placed_and_padding_changes_nothing():
    tokens, places = small.padded([[1, 2, 3, 4], [5, 6]]), small.padded([[1, 3], [0]])
    found = placed(tokens, places, torch.tensor([[20, 40], [50, 99]]))
    assert [row.tolist() for row in found.rows()] == [[1, 20, 3, 40], [50, 6]]
    nothing = small.padded([torch.tensor([], dtype=torch.int64)] * 2)
    assert torch.equal(placed(tokens, nothing, nothing.values).values, tokens.values)


def test_a_target_without_text_has_no_loss_that_is_not_a_number():
    model = filler().train()
    rows = Batch({"source": small.padded([[5, 6], [7]]), "target": small.padded([[START, MASK, END], [START, END]])})
    rows = rows.with_fields(**{"target.places": small.padded([[1], []]).map(torch.Tensor.long)})
    rows = rows.with_fields(**{"target.labels": small.padded([[9], []]).map(torch.Tensor.long)})
    loss = small.objective(model, DenoisedTokens(), OutputLength())(rows).total()
    loss.backward()
    assert bool(loss.isfinite()) and bool(model.keys.weight.grad.isfinite().all())


# -- the system -------------------------------------------------------------------------------------------------------


def system(loops=2, **changes):
    tokenizer = System.load(small.GOLDEN).output.tokenizer
    fields = {side: TextField(column=f"{side}_text", tokenizer=tokenizer, prefix=["<s>"]) for side in ROWS}
    torch.manual_seed(3)
    model = filler(reader=reader(tokenizer.size, positions=60), blank=tokenizer.blank, mask=tokenizer.mask, **changes)
    options = {"inputs": {"source": fields["source"]}, "output": fields["target"], "loops": loops}
    return small.system(tokenizer, model, cls=GuidedFillingSystem, **options).eval()


@torch.no_grad()
@pytest.mark.parametrize("loops", [0, 1, 3])
def test_outputs_are_filled_and_denoised(loops):
    own = system(loops)
    tokenizer, model = own.output.tokenizer, own.model
    around = tokenizer.id("<s>"), tokenizer.eos
    inputs = ["one two three", "two"]
    found = own.hypotheses(inputs, search=FillingSearch(iterations=3, beam=3, n_best=2))
    for text, some in zip(inputs, found, strict=True):
        source = own.inputs["source"](small.row(1, text, target_language="de"), None)
        for one, (filled, score) in zip(some, by_loop(model, source, 3, 3, around, tokenizer.pad)[:2], strict=True):
            expected = path_by_loop(model, source, filled, loops) if loops else filled
            assert one.tokens == [*expected, tokenizer.eos]
            assert one.score == pytest.approx(score, abs=1e-4)
            assert one.texts == {"translation": tokenizer.decode(expected)}


def test_a_system_translates_saves_and_loads_with_its_loops(tmp_path):
    own, inputs = system(), ["one two three", "", "two"]
    texts = own.translate(inputs)
    assert texts[1] == "" and [own.translate(text) for text in inputs] == texts
    own.save(tmp_path / "model")
    assert System.load(tmp_path / "model").translate(inputs) == texts
    load(folder=str(tmp_path / "model"), changes={"loops": 0}).save(tmp_path / "filled")
    assert System.load(tmp_path / "filled").translate(inputs) == system(0).translate(inputs)


def test_logits_of_what_a_trimmed_vocabulary_keeps_do_not_change(tmp_path):
    logits = []
    for one in (systems := small.trimmed(system(), tmp_path)):
        tokenizer = one.output.tokenizer
        encoding = one.model.encode(small.batch(source=[tokenizer.encode("one two")]))
        tokens = small.padded([[tokenizer.encode("eins")[0], one.model.mask]])
        logits.append([one.model.fill(tokens, encoding), one.model.length_scores(encoding)])
    torch.testing.assert_close(logits[1][0], logits[0][0][..., systems[1].output.tokenizer.kept])
    torch.testing.assert_close(logits[1][1], logits[0][1])


def test_the_command_line_fills_masks_as_often_as_it_is_told():
    assert search_for(fitting(SearchOptions(beam=3), system())).arguments == {"iterations": 4, "beam": 3, "n_best": 1}


def test_refusals():
    model = filler()
    assert isinstance(model, Filler) and isinstance(model, MaskedDecoder)
    FilledTokens().check(model)
    refuses(UsageError, "DenoisedTokens needs a GuidedFiller, which", DenoisedTokens().check, small.translator(9))
    refuses(UsageError, "has no head 'denoising', only none", DenoisedTokens().check, filler(denoises=False))
    refuses(ValueError, "outputs of 11 tokens need 22 positions, but the language model has 20", filler, longest=11)
    filler(longest=11, denoises=False)
    refuses(UsageError, "the model reads 'source', not 'speech'", lambda: model.encode(batch()[0], "speech"))
    long = small.drawn_batch({"source": [4, 21]}, VOCABULARY, 7)
    refuses(DataError, "row 1: its 'source' is too long for the model: 21 elements", model.encode, long)
    refuses(UsageError, "no denoising pass: decode it with 0 loops", system, denoises=False)
    system(0, denoises=False)
    own = system()
    refuses(UsageError, "BeamSearch fills no masks", own.translate, "one", search=BeamSearch())
    more = own.arguments | {"target_languages": ["de", "fr"]}
    refuses(UsageError, "nothing in the source tells which of de, fr", GuidedFillingSystem, **more)
    output = TextField(column="target_text", tokenizer=own.output.tokenizer, prefix=["<{target_language}>"])
    GuidedFillingSystem(**more | {"output": output})
