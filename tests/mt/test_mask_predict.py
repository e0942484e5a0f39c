"""Mask-Predict's model against torch's layers, its losses and masks against loops, its system, and refusals."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dragoman import BeamSearch, DataError, Manifest, Recipe, System, UsageError
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.searching import fitting, search_for
from dragoman.exchange.trimming import trim
from dragoman.mt.mask_predict import EvenlyMaskedText, FilledTokens, FillingSystem, MaskFiller, OutputLength
from dragoman.shared.generator import Encoding, Filler
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import MEMORY, EncoderModel
from dragoman.shared.padded import Padded
from dragoman.shared.search.filling import FillingSearch
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.training.initialise import Initialise
from tests import small
from tests.mt import test_veco as veco
from tests.small import refuses, torch_layer

WIDTH, VOCABULARY, MASK, LONGEST = 16, 30, 4, 12
LENGTHS = {"source": [4, 6, 3], "target": [5, 9, 4]}


def filler(vocabulary=VOCABULARY, mask=MASK, **changes):
    torch.manual_seed(1)
    decoder = small.encoder(1, activation="gelu", memories=[MEMORY])
    parts = {"encoder": small.encoder(1, activation="gelu"), "decoder": decoder, "mask": mask, "longest": LONGEST}
    made = small.translator(vocabulary, cls=MaskFiller, **parts | changes)
    torch.nn.init.normal_(made.lengths.weight)
    return made.eval()


def batch():
    rows = small.drawn_batch(LENGTHS, VOCABULARY, 7)
    places = [[1, 3], [2], [1, 2]]
    labels = small.drawn([2, 1, 2], VOCABULARY, 7)
    shown = rows["target"].values.clone()
    for row, some in enumerate(places):
        shown[row, some] = MASK
    target = Padded(shown, rows["target"].lengths)
    return rows.with_fields(**{"target": target, "target.places": small.padded(places), "target.labels": labels})


def by_hand(model, source, target):
    """Return the logits of lengths, and those of all places of one sentence, through torch's layers."""
    read = model.embeddings["source"](small.padded([source])).values
    x = torch.cat([model.lengths.weight[:1][None], read], dim=1)
    states = model.encoder.norm(torch_layer(model.encoder.layers[0]).eval()(x))
    y = model.target_embedding(small.padded([target])).values
    written = torch_layer(model.decoder.layers[0], MEMORY).eval()(y, states[:, 1:])
    logits = model.decoder.norm(written) @ model.target_embedding.weight.T
    return states[0, 0] @ model.lengths.weight.T, logits[0]


def test_lengths_and_tokens_are_those_of_torch_and_padding_changes_nothing():
    model, rows = filler(), batch()
    encoding = model.encode(rows)
    filled = model.fill(rows["target"], encoding)
    for number, (source, target) in enumerate(zip(rows["source"].rows(), rows["target"].rows(), strict=True)):
        lengths, logits = by_hand(model, source, target)
        lengths[0] = -torch.inf
        expected = lengths.log_softmax(-1)
        torch.testing.assert_close(model.length_scores(encoding)[number], expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(filled[number, : len(target)], logits, atol=1e-5, rtol=1e-5)


def test_the_losses_are_those_of_a_loop():
    model, rows = filler(), batch()
    objective = small.objective(model, FilledTokens(label_smoothing=0.0), OutputLength())
    parts = objective(rows).parts
    assert {name: term.count.item() for name, term in parts.items()} == {
        name: count.item() for name, count in objective.counts(rows).items()
    }
    filled, length, right = 0.0, 0.0, 0
    for number in range(len(rows)):
        lengths, logits = by_hand(model, rows["source"].rows()[number], rows["target"].rows()[number])
        places, labels = (rows[f"target.{name}"].rows()[number] for name in ("places", "labels"))
        filled += F.cross_entropy(logits[places], labels, reduction="sum")
        n = LENGTHS["target"][number] - 2  # without the symbols before and behind
        length += F.cross_entropy(lengths[1:], torch.tensor(n - 1))
        right += int(lengths[1:].argmax()) + 1 == n
    torch.testing.assert_close(parts["filled"].sum, filled, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(parts["length"].sum, length, atol=1e-4, rtol=1e-5)
    assert (int(parts["filled"].count), int(parts["length"].count), parts["length"].weight) == (5, 3, 0.1)
    assert int(parts["length_accuracy"].sum) == right


def test_any_number_of_a_texts_pieces_is_masked_equally_often():
    tokenizer = small.tokenizer(["abcd", "dcba"])
    field = EvenlyMaskedText(field=small.text(tokenizer, "target"))
    row, rng = small.row(1, target="abcd"), np.random.default_rng(1)
    pieces = tokenizer.encode("abcd")
    counts, hidden = np.zeros(len(pieces) + 1), np.zeros(len(pieces))
    for _ in range(4000):
        made = field(row, rng)
        places = made["places"].numpy() - 1  # behind <de>
        assert made[""][0] == tokenizer.id("<de>") and made[""][-1] == tokenizer.eos
        assert made["labels"].tolist() == [pieces[place] for place in places]
        shown = [tokenizer.mask if place in places else piece for place, piece in enumerate(pieces)]
        assert made[""][1:-1].tolist() == shown
        counts[len(places)] += 1
        hidden[places] += 1
    assert counts[0] == 0
    assert counts[1:] / 4000 == pytest.approx(1 / len(pieces), abs=0.03)
    assert hidden / 4000 == pytest.approx((len(pieces) + 1) / 2 / len(pieces), abs=0.03)
    assert field(small.row(1, target=""), rng)["places"].tolist() == []


@pytest.fixture
def system():
    tokenizer = small.tokenizer(["abc", "cab"])
    return small.system(tokenizer, filler(tokenizer, tokenizer.mask), cls=FillingSystem).eval()


def test_a_system_translates_saves_and_loads(system, tmp_path):
    assert isinstance(system.model, Filler)
    inputs = ["abc", "c", "", "cab a b"]
    texts = system.translate(inputs)
    assert texts[2] == "" and all(texts[number] for number in (0, 1, 3))
    assert [system.translate(text) for text in inputs] == texts
    few = system.hypotheses(["abc"], beam=3, n_best=3)[0]
    assert len({len(one.tokens) for one in few}) == 3 and few[0].score == max(one.score for one in few)
    system.save(tmp_path / "model")
    assert System.load(tmp_path / "model").translate(inputs) == texts


def test_what_a_trimmed_vocabulary_keeps_is_written_with_its_mask(system, tmp_path):
    system.save(tmp_path / "model")
    texts = Manifest.write(tmp_path / "texts.arrow", [small.row("1", "ab", "ba")]).path
    trim(tmp_path / "model", [texts], tmp_path / "trimmed")
    whole, trimmed = (System.load(tmp_path / name) for name in ("model", "trimmed"))
    assert trimmed.model.mask != whole.model.mask
    assert trimmed.output.tokenizer.symbol(trimmed.model.mask) == "<mask>"
    logits = []
    for one in (whole, trimmed):
        source, mask = one.output.tokenizer.encode("ab"), one.model.mask
        encoding = one.model.encode(small.batch(source=[source]))
        logits.append(one.model.fill(small.padded([[source[-1], mask]]), encoding))
    torch.testing.assert_close(logits[1], logits[0][..., trimmed.output.tokenizer.kept])


def test_the_command_line_fills_masks_as_often_as_it_is_told(system):
    asked = fitting(SearchOptions(beam=3), system)
    assert search_for(asked, n_best=2).arguments == {"iterations": 10, "beam": 3, "n_best": 2}
    assert search_for(fitting(SearchOptions(iterations=4), system)).arguments["iterations"] == 4
    other = SearchOptions(length_penalty=2.0)
    refuses(UsageError, "--length-penalty does not apply to filling masks", fitting, other, system)
    refuses(UsageError, "--sample does not apply to filling masks", SearchOptions(iterations=1, sample=True).check)


def test_refusals(system):
    refuses(UsageError, "BeamSearch fills no masks, as this system needs", system.translate, "abc", search=BeamSearch())
    rows = small.drawn_batch({"source": [3]}, 9, 7)
    refuses(UsageError, "cannot be forced", system.translate_batch, rows, FillingSearch(), forced=[[1]])
    refuses(ValueError, "attend to 'source', but has 16 and attends to \\[\\]", filler, decoder=small.encoder())
    refuses(ValueError, "the mask 30 is outside the vocabulary of 30", filler, mask=30)
    for part, kind in ((FilledTokens(), "MaskedDecoder"), (OutputLength(), "Filler")):
        message = f"needs a {kind}, which fills masks, but the model is Translator"
        refuses(UsageError, message, part.check, small.translator(9))
    assert len(Encoding({}, {"lengths": torch.zeros(2, 3)})) == 2


# -- VECO's stack -----------------------------------------------------------------------------------------------------


def from_stack(tokenizer, longest=LONGEST):
    """Return a system that fills masks with two layers of decoder, as recipes make it of VECO's stack."""
    torch.manual_seed(9)
    own = veco.embedding(tokenizer.size, tokenizer.pad)
    target = veco.embedding(tokenizer.size, tokenizer.pad, own)
    model = MaskFiller(
        embeddings={"source": own},
        encoder=Encoder(layer=veco.layer(pre_norm=True), layers=veco.LAYERS),
        target_embedding=target,
        decoder=Encoder(layer=veco.layer(pre_norm=True, memories=[MEMORY]), layers=2),
        projection=MaskedTokenHead(width=WIDTH, projection=TiedProjection(embedding=target, bias=True)),
        mask=tokenizer.mask,
        longest=longest,
    )
    return small.system(tokenizer, model.eval(), cls=FillingSystem)


def begun(system, folder):
    """Take what the recipe takes of a stack, its last two layers for the decoder; return the reports."""
    recipe = Recipe.load("almanac/mask_predict_from_veco", {"kept_layers": [-2, -1]})
    parts = [recipe.value(f"{side}_parts") for side in ("encoder", "decoder")]
    # The translator's and the stack's second table of positions are one in Almanac, which has sinusoids.
    parts[1] = {"model.target_embedding": "model.embeddings.source"} | parts[1]
    layers = [None, recipe.value("kept_layers")]
    both = zip(parts, layers, strict=True)
    return [line for some, kept in both for line in Initialise(folder=folder, parts=some, layers=kept).apply(system)]


def save_stack(folder, tokenizer, model):
    source = small.text(tokenizer, prefix=["<s>"])
    EncoderSystem(model=model, inputs={"source": source}, source_languages=["de", "en"]).save(folder)
    return str(folder)


def test_it_begins_with_the_stack_of_veco_which_now_sees_both_sides(tmp_path):
    tokenizer = small.tokenizer(["abcdef", "fedcba"])
    stack = veco.variable(True, tokenizer.size, tokenizer.pad)
    system = from_stack(tokenizer)
    before = {name: tensor.clone() for name, tensor in system.state_dict().items()}
    reports = begun(system, save_stack(tmp_path / "veco", tokenizer, stack))
    assert {name for name, value in system.state_dict().items() if torch.equal(value, before[name])} == {
        "model.lengths.weight"
    }
    for name in ("model.embeddings.source", "model.encoder", "model.decoder", "model.projection"):
        count = sum(one.startswith(f"{name}.") for one in before)
        assert any(line.startswith(f"{name}: {count} of {count} tensors from model.") for line in reports)
    model, known = system.model, stack.eval()
    rows = small.drawn_batch({"source": [4, 6], "target": [5, 3]}, tokenizer.size, 7)
    encoding = model.encode(rows)
    filled = model.fill(rows["target"], encoding)
    for number in range(2):
        x, y = (known.embed(small.alone(rows, number), name).values for name in ("source", "target"))
        x = torch.cat([model.lengths.weight[:1][None], x], dim=1)
        for layer in known.encoder.layers:
            x = plugged_out(layer)(x)
        for layer in known.encoder.layers[-2:]:
            y = torch_layer(layer, MEMORY).eval()(y, known.encoder.norm(x)[:, 1:])  # without a mask: it sees both sides
        logits = known.heads["masked"](known.encoder.norm(y))[0]
        torch.testing.assert_close(filled[number, : len(logits)], logits, atol=1e-4, rtol=1e-4)
    labels = small.padded([[7, 8], [9]])
    places = small.padded([[1, 3], [1]])
    masked = rows.with_fields(**{"target.places": places, "target.labels": labels})
    term = FilledTokens(label_smoothing=0.0).terms(model, masked, encoding)["filled"]
    expected = sum(F.cross_entropy(filled[n][places.rows()[n]], labels.rows()[n], reduction="sum") for n in range(2))
    torch.testing.assert_close(term.sum, expected, atol=1e-4, rtol=1e-5)


def plugged_out(layer):
    """Return torch's encoder layer with what a layer has beside its attention to a memory."""
    plain = veco.layer(pre_norm=True)
    known = layer.state_dict()
    plain.load_state_dict({name: known[name] for name in plain.state_dict()})
    return torch_layer(plain).eval()


def test_what_a_stack_lacks_is_named(tmp_path):
    tokenizer = small.tokenizer(["abcdef", "fedcba"])
    whole = veco.variable(True, tokenizer.size, tokenizer.pad)
    plain = EncoderModel(
        embeddings={"source": whole.embeddings["source"]},
        encoder=Encoder(layer=veco.layer(pre_norm=True), layers=veco.LAYERS),
        heads={"masked": whole.heads["masked"]},
    )
    folder = save_stack(tmp_path / "plain", tokenizer, plain)
    lacking = r"model\.encoder\.layers\.1\.memory_attention\.source\.\S+ is missing"
    refuses(DataError, lacking, begun, from_stack(tokenizer), folder)
    unknown = {"model.decoder.extra": "model.encoder"}
    one = Initialise(folder=folder, parts=unknown)
    refuses(UsageError, "no parameters below 'model.decoder.extra'", one.apply, from_stack(tokenizer))


def test_a_teacher_has_the_sizes_of_its_pupil_and_others_if_they_are_given():
    keys = {"data_folder": "none", "source_language": "en", "target_language": "de", "width": 64, "heads": 4}
    keys |= {"feedforward": 128, "encoder_layers": 2, "decoder_layers": 1, "phases.teacher.decoder_layers": 3}
    teacher = Recipe.load("text/mask_predict", keys).plan["teacher"].inner
    sizes = {key: teacher.value(key) for key in ("width", "heads", "feedforward", "encoder_layers", "decoder_layers")}
    assert [*sizes.values()] == [64, 4, 128, 2, 3]
