"""TCEN: paths that collapse to their text, one matrix for two purposes, and what each loss teaches.

Legend: B sentences, L length, S states, D width.
"""

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman import BeamSearch, CtcGreedySearch, Manifest, Rules, System, UsageError
from dragoman.exchange.trimming import trim
from dragoman.shared import described
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import collate
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.nn.heads import CtcHead, OutputProjection, TiedProjection
from dragoman.shared.nn.recurrent import LstmEncoder, RecurrentDecoder
from dragoman.shared.objectives import CrossEntropy, TaskObjective
from dragoman.shared.systems.combining import through_ctc
from dragoman.st.tcen import AcousticCtc, PathText, Tcen
from tests import small
from tests.st.test_costt import Renamed
from tests.test_nouns import WORDS

WIDTH = 8
SEARCH = BeamSearch(beam=3, rules=Rules(maximum_length_extra=6))


@pytest.fixture(autouse=True)
def rooms(monkeypatch):
    monkeypatch.setattr(described, "PACKAGES", (*described.PACKAGES, Renamed.__module__))


def paths(tokenizer, fewest=3.0, most=6.0, **more):
    return PathText(tokenizer=tokenizer, fewest_states=fewest, most_states=most, **more)


# -- paths ------------------------------------------------------------------------------------------------------------


def texts_of_pieces():
    rng = np.random.default_rng(3)
    return [rng.integers(10, 13, rng.integers(1, 9)).tolist() for _ in range(200)]  # a third of neighbours are equal


@pytest.mark.parametrize(("fewest", "most"), [(1.0, 1.0), (1.2, 2.5), (4.0, 8.0)])
def test_a_path_is_one_of_those_that_ctc_adds_up_for_the_text(tokenizer, fewest, most):
    field, rng = paths(tokenizer, fewest, most), np.random.default_rng(1)
    for pieces in texts_of_pieces():
        for path in (field.path(pieces, rng), field.path(pieces, None)):
            collapsed = [symbol for symbol, _ in groupby(path.tolist()) if symbol != tokenizer.blank]
            assert collapsed == pieces
            certain = torch.full((len(path), 1, tokenizer.size), -1e4)
            certain[range(len(path)), 0, path] = 0.0
            lengths = torch.tensor([len(path)]), torch.tensor([len(pieces)])
            assert F.ctc_loss(certain, torch.tensor([pieces]), *lengths, tokenizer.blank, reduction="sum").item() == 0
            equal = sum(a == b for a, b in zip(pieces, pieces[1:], strict=False))
            needed = len(pieces) + equal
            assert max(needed, round(fewest * len(pieces))) <= len(path) <= max(needed, round(most * len(pieces)))


def test_where_blanks_and_repetitions_are_is_drawn_evenly(tokenizer):
    field, rng = paths(tokenizer, 2.0, 6.0, blank_share=0.75), np.random.default_rng(2)
    pieces, runs, lengths = [10, 11, 12], np.zeros(7), []
    for _ in range(4000):
        path = field.path(pieces, rng).tolist()
        lengths.append(len(path))
        places = {}
        for symbol, run in groupby(path):  # blanks before each piece and behind the last, and pieces between
            place = 2 * pieces.index(symbol) + 1 if symbol in pieces else max(places, default=-1) + 1
            places[place] = len([*run])
        for place, count in places.items():
            runs[place] += count
    assert np.bincount(lengths)[6:19].min() > 0 and np.mean(lengths) == pytest.approx(12, rel=0.02)
    added = np.mean(lengths) - 3
    blanks, repetitions = runs[0::2] / 4000, runs[1::2] / 4000 - 1
    np.testing.assert_allclose(blanks, 0.75 * added / 4, rtol=0.05)
    np.testing.assert_allclose(repetitions, 0.25 * added / 3, rtol=0.05)


def test_a_path_without_noise_is_spread_evenly(tokenizer):
    blank = tokenizer.blank
    half = paths(tokenizer, 3.0, 5.0, blank_share=0.5)
    # 8 states: 2 pieces and 6 more, of which 3 blanks at 3 places, and 3 repetitions
    assert half.path([10, 11], None).tolist() == [blank, 10, 10, blank, 11, 11, 11, blank]
    assert paths(tokenizer, 1.0, 1.0).path([10, 10, 11], None).tolist() == [10, blank, 10, 11]
    assert paths(tokenizer, 2.0, 2.0, blank_share=0.0).path([10, 11], None).tolist() == [10, 10, 11, 11]
    assert half.path([], None).tolist() == half.path([], np.random.default_rng(0)).tolist() == []


def test_a_row_has_room_for_its_path_and_no_symbols_around_it(tokenizer):
    rows = [{"id": word, "source_text": word, "source_language": "en"} for word in [*WORDS, "", "aaaaaaaaa"]]
    rows.append({"id": "none", "source_text": None, "source_language": "en"})
    for field in (paths(tokenizer, 1.0, 1.5), paths(tokenizer, 2.5, 6.5)):
        lengths = field.lengths(rows)
        assert lengths.tolist() == [field.length(row) for row in rows[:-1]] + [-1]
        for row, longest in zip(rows[:-1], lengths[:-1], strict=True):
            pieces = tokenizer.encode(row["source_text"])
            drawn = [field(row, np.random.default_rng(seed)) for seed in range(60)]
            assert {path.dtype for path in drawn} == {torch.int64}
            assert max(len(path) for path in drawn) <= longest <= np.ceil(max(2, field.most_states) * len(pieces))
            assert torch.equal(drawn[0], field(row, np.random.default_rng(0)))
            assert field.most_states < 2 or not pieces or len({tuple(path.tolist()) for path in drawn}) > 1


def test_a_trained_model_reads_the_path_without_noise(tokenizer):
    field = paths(tokenizer, blank_share=0.3)
    read = field.evaluating()
    assert type(read) is PathText and read.evaluating().arguments == read.arguments
    row = {"id": "1", "source_text": "aabb", "source_language": "en"}
    expected = field.path(tokenizer.encode("aabb"), None).tolist()
    assert {tuple(read(row, np.random.default_rng(seed)).tolist()) for seed in range(9)} == {tuple(expected)}


@pytest.mark.parametrize(
    ("fewest", "most", "said"),
    [
        (0.5, 3.0, "fewest_states must be at least 1, not 0.5"),
        (4.0, 3.0, "need fewest_states <= most_states, not 4.0 and 3.0"),
        (2.0, float("inf"), "most_states must be a finite number at least 1, not inf"),
        (float("nan"), 3.0, "fewest_states must be a finite number at least 1, not nan"),
    ],
)
def test_impossible_numbers_of_states_are_refused(tokenizer, fewest, most, said):
    small.refuses(UsageError, said, paths, tokenizer, fewest, most)
    small.refuses(UsageError, r"blank_share must be between 0 and 1, not 1\.5", paths, tokenizer, blank_share=1.5)


# -- model ------------------------------------------------------------------------------------------------------------


def parts(tokenizer, *, tied=True, **more):
    source, target = (small.embedding(tokenizer, WIDTH, None) for _ in range(2))
    scores = TiedProjection(embedding=source, bias=True)
    if not tied:
        scores = OutputProjection(width=WIDTH, vocabulary=tokenizer.size, bias=True)
    speech = small.speech_embedding(WIDTH, positions=None)
    symbols = {"vocabulary": tokenizer.size, "blank": tokenizer.blank}
    head = CtcHead(tap="acoustic", width=WIDTH, projection=scores, **symbols)
    return {
        "embeddings": {"speech": speech, "source": source},
        "acoustic": LstmEncoder(inputs=WIDTH, width=WIDTH, layers=2, bidirectional=True),
        "encoder": LstmEncoder(inputs=WIDTH, width=WIDTH, layers=2, bidirectional=True),
        "target_embedding": target,
        "decoder": RecurrentDecoder(inputs=WIDTH, width=WIDTH, layers=1, memories=["source"]),
        "projection": TiedProjection(embedding=target),
        "heads": {"ctc": head},
        **more,
    }


def system_of(tokenizer, *, labels=None, **more):
    torch.manual_seed(3)
    model = Tcen(**parts(tokenizer, **more))
    with torch.no_grad():  # as if trained, so that nothing is decided by rounding
        model.heads["ctc"].projection.bias.normal_(std=0.5)
        for lstm in (*model.acoustic.lstms, *model.encoder.lstms, *model.decoder.lstms):
            for name, parameter in lstm.named_parameters():
                if name.startswith("weight"):
                    parameter *= 2
    return small.system(
        tokenizer,
        model,
        inputs={"speech": SpeechField(), "source": paths(tokenizer)},
        ctc_output=TextField(column="source_text", tokenizer=labels or tokenizer),
        reads=["speech"],
    ).eval()


def batch(system, rows, *names, stream=""):
    fields = system.inputs | {"target": system.output, "transcript": system.ctc_output}
    return replace(collate(rows, {name: fields[name] for name in names}, np.random.default_rng(0)), stream=stream)


def by_torch(encoder: LstmEncoder, row: torch.Tensor) -> torch.Tensor:
    """Encode one row (S, D) without padding by torch's stack of two layers."""
    stack = nn.LSTM(WIDTH, WIDTH // 2, num_layers=2, bidirectional=True, batch_first=True)
    tensors = {}
    for number, layer in enumerate(encoder.lstms):
        tensors |= {name.replace("_l0", f"_l{number}"): value for name, value in layer.state_dict().items()}
    stack.load_state_dict(tensors)
    return stack(row[None])[0][0]


@torch.no_grad()
def test_speech_goes_through_both_encoders_and_text_through_the_second(tokenizer, rows):
    system = system_of(tokenizer)
    model, data = system.model, batch(system, rows, "speech", "source")
    spoken, written = model.encode(data), model.encode(data, "source")
    sound = model.embeddings["speech"](data["speech"])
    vectors = model.embeddings["source"].weight[data["source"].values] * WIDTH**0.5
    for number, (length, path) in enumerate(zip(sound.lengths, data["source"].lengths, strict=True)):
        acoustic = by_torch(model.acoustic, sound.values[number, :length])
        torch.testing.assert_close(model.tap(spoken, "acoustic").values[number, :length], acoustic)
        torch.testing.assert_close(spoken.memories["source"].values[number, :length], by_torch(model.encoder, acoustic))
        expected = by_torch(model.encoder, vectors[number, :path])
        torch.testing.assert_close(written.memories["source"].values[number, :path], expected)
    assert torch.equal(spoken.memories["source"].lengths, sound.lengths)
    assert torch.equal(written.memories["source"].lengths, data["source"].lengths)
    assert {*written.memories} == {"source"} and "tap.acoustic" not in written.extras


class Said(nn.Module):
    """A speech encoder that returns what it was made with."""

    def __init__(self, states):
        super().__init__()
        self.states = states

    def forward(self, x):
        return self.states, {}


@torch.no_grad()
def test_speech_whose_states_are_vectors_of_a_text_is_translated_as_the_text(tokenizer, rows):
    system = system_of(tokenizer)
    text = batch(system, rows, "source")
    written = system.translate_batch(text, SEARCH)
    system.model.acoustic = Said(system.model.embed(text, "source"))
    spoken = system.translate_batch(batch(system, rows, "speech"), SEARCH)
    assert [[h.tokens for h in one] for one in spoken] == [[h.tokens for h in one] for one in written]
    assert len({tuple(one[0].tokens) for one in spoken}) > 1


def objective_of(system, *streams):
    st, mt = (CrossEntropy(source=source, prefix=prefix) for source, prefix in (("speech", "st."), ("source", "mt.")))
    tasks = {"st": [st], "asr": [AcousticCtc(prefix="asr.")], "mt": [mt]}
    return TaskObjective(system=system, tasks={name: tasks[name] for name in streams or tasks})


FIELDS = {"st": ["speech", "target"], "asr": ["speech", "transcript"], "mt": ["source", "target"]}


def gradients(system, rows, *streams):
    """Return the gradients of the sum of the losses, by the names of parameters that have one."""
    system.zero_grad()
    objective = objective_of(system)
    for stream in streams:
        objective(batch(system, rows, *FIELDS[stream], stream=stream)).total().backward()
    return {name: one.grad.clone() for name, one in system.model.named_parameters() if one.grad is not None}


#: What each loss teaches, by the beginnings of names.
TAUGHT = {
    "asr": ("embeddings.speech.", "embeddings.source.", "acoustic.", "heads.ctc."),
    "mt": ("embeddings.source.", "encoder.", "target_embedding.", "decoder."),
    "st": ("embeddings.speech.", "acoustic.", "encoder.", "target_embedding.", "decoder."),
}


@pytest.mark.parametrize("stream", TAUGHT)
def test_each_loss_teaches_the_parts_that_it_goes_through(tokenizer, rows, stream):
    system = system_of(tokenizer)
    taught = gradients(system, rows, stream)
    assert {*taught} == {name for name, _ in system.model.named_parameters() if name.startswith(TAUGHT[stream])}
    assert all(gradient.abs().sum() > 0 for gradient in taught.values())
    assert {"embeddings.source.tokens.weight", "heads.ctc.projection.bias"} <= {*taught} or stream != "asr"


def test_one_matrix_has_the_gradients_of_both_of_its_purposes(tokenizer, rows):
    tied, apart = system_of(tokenizer), system_of(tokenizer, tied=False)
    there = tied.model.state_dict()
    there["heads.ctc.projection.weight"] = there["embeddings.source.tokens.weight"]
    apart.model.load_state_dict(there)
    both = gradients(tied, rows, "asr", "mt")["embeddings.source.tokens.weight"]
    each = gradients(apart, rows, "asr", "mt")
    as_scores, as_vectors = each["heads.ctc.projection.weight"], each["embeddings.source.tokens.weight"]
    torch.testing.assert_close(both, as_scores + as_vectors)
    assert min(as_scores.abs().max(), as_vectors.abs().max()) > 1e-3
    assert tied.model.tied and not apart.model.tied


def test_labels_are_scored_by_the_vectors_of_the_source_and_nothing_above_is_computed(tokenizer, rows):
    system = system_of(tokenizer)
    data, model = batch(system, rows, "speech", "transcript"), system.model
    states = model.tap(model.heard(data), "acoustic")
    scores = states.values @ model.embeddings["source"].weight.T + model.heads["ctc"].projection.bias
    texts = [torch.tensor(tokenizer.encode(row["source_text"])) for row in rows]
    lengths = states.lengths, torch.tensor([len(text) for text in texts])
    log_p = scores.log_softmax(-1).transpose(0, 1)
    expected = F.ctc_loss(log_p, torch.cat(texts), *lengths, tokenizer.blank, reduction="sum")
    model.encoder = model.decoder = None
    part = AcousticCtc(weight=0.7, prefix="asr.")
    terms = part.evaluate(model, data, lambda field: pytest.fail("both encoders are asked"))
    term = terms["asr.ctc"]
    torch.testing.assert_close(term.sum, expected)
    assert int(term.count) == sum(map(len, texts)) and term.weight == 0.7
    counts = {name: int(count) for name, count in part.counts(data).items()}
    assert counts == {name: int(term.count) for name, term in terms.items()}


@torch.no_grad()
def test_a_folder_translates_speech_and_text_and_recognises(tokenizer, rows, tmp_path):
    system = system_of(tokenizer)
    speech, text = batch(system, rows, "speech"), batch(system, rows, "source")
    system.save(tmp_path / "model")
    loaded = System.load(tmp_path / "model")
    assert loaded.model.tied and "model.heads.ctc.projection.weight" not in loaded.state_dict()
    for data, reads in ((speech, "speech"), (text, "source")):
        before, after = (one.for_task(reads=[reads]).translate_batch(data, SEARCH) for one in (system, loaded))
        assert [[h.tokens for h in one] for one in after] == [[h.tokens for h in one] for one in before]
    recognised = through_ctc(loaded).translate_batch(speech, CtcGreedySearch())
    states = system.model.tap(system.model.heard(speech), "acoustic")
    best = system.model.heads["ctc"](states.values).argmax(-1)
    for row, length, found in zip(best, states.lengths, recognised, strict=True):
        said = [symbol for symbol, _ in groupby(row[:length].tolist()) if symbol != tokenizer.blank]
        assert found[0].tokens == said and found[0].texts == {"transcript": tokenizer.decode(said)}


@torch.no_grad()
def test_trimming_keeps_one_matrix(tokenizer, rows, tmp_path):
    system = system_of(tokenizer)
    system.save(tmp_path / "model")
    few = Manifest.write(tmp_path / "few.arrow", [rows[0] | {"source_text": "ab", "target_text": "ba"}])
    trim(tmp_path / "model", [few.path], tmp_path / "trimmed")
    trimmed = System.load(tmp_path / "trimmed")
    kept = trimmed.ctc_output.tokenizer.kept
    assert trimmed.model.tied and len(kept) < tokenizer.size
    before, after = system.model, trimmed.model
    assert torch.equal(after.embeddings["source"].weight, before.embeddings["source"].weight[kept])
    assert torch.equal(after.heads["ctc"].projection.bias, before.heads["ctc"].projection.bias[kept])
    assert kept[after.heads["ctc"].blank] == tokenizer.blank == kept[trimmed.inputs["source"].tokenizer.blank]


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_parts_that_do_not_fit_are_refused(tokenizer):
    whole = parts(tokenizer)
    source = whole["embeddings"]["source"]

    def refused(message, **changed):
        small.refuses(ValueError, message, Tcen, **whole | changed)

    message = "need embeddings of 'speech' and of the text 'source'"
    refused(f"{message}, not of \\['source'\\]", embeddings={"source": source})
    refused(message, embeddings={"speech": source, "source": nn.Identity()})
    refused("learns by a head 'ctc' whose tap is 'acoustic'", heads={})
    lower = CtcHead(tap=1, width=WIDTH, vocabulary=9, blank=8)
    refused("learns by a head 'ctc' whose tap is 'acoustic'", heads={"ctc": lower})
    wide = LstmEncoder(inputs=6, width=WIDTH, layers=1, bidirectional=True)
    refused("the speech encoder reads width 6, but embedded speech has 8", acoustic=wide)
    narrow = LstmEncoder(inputs=WIDTH, width=6, layers=1, bidirectional=True)
    refused("reads width 8, the speech encoder's states have 6 and the source's vectors 8", acoustic=narrow)
    refused("reads width 6, the speech encoder's states have 8 and the source's vectors 8", encoder=wide)
    refused("states of width 8 cannot be compared with an encoder's of 6", encoder=narrow)
    head = {"tap": "acoustic", "width": WIDTH, "vocabulary": 5, "blank": 4}
    message = r"a projection of \(\d+, 8\) makes no logits of 5 symbols from width 8"
    small.refuses(ValueError, message, CtcHead, projection=TiedProjection(embedding=source), **head)


def test_labels_of_another_tokenizer_are_refused_where_one_matrix_scores_them(tokenizer):
    other = Renamed(model=tokenizer.arguments["model"], tags=["de", "en"])
    message = "scores the pieces of 'source', but its labels have another tokenizer"
    small.refuses(UsageError, message, objective_of, system_of(tokenizer, labels=other))
    objective_of(system_of(tokenizer, labels=other, tied=False))
    system = system_of(tokenizer)
    system.model = nn.Identity()
    small.refuses(UsageError, "AcousticCtc needs a Tcen, not a Identity", objective_of, system, "asr")


def test_padding_is_not_read(tokenizer, rows):
    system = system_of(tokenizer)
    data = batch(system, rows, "speech")
    alone = system.model.encode(batch(system, rows[:1], "speech")).memories["source"]
    noise = data["speech"].map(lambda values: values.masked_fill(~data["speech"].mask, 0.5))
    together = system.model.encode(data.with_fields(speech=noise)).memories["source"]
    torch.testing.assert_close(together.values[0, : alone.lengths[0]], alone.values[0], atol=1e-4, rtol=1e-4)
