"""One masked model of speech and text: joined encodings, masked places, and what a missing field leaves alone."""

import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.embeddings import TypeVector
from dragoman.shared.nn.fbank import Fbank, UtteranceNorm
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.spans import SpanMasking
from dragoman.shared.nn.subsampler import Conv1dSubsampler
from dragoman.shared.nn.waveform import ConvolutionalPositions, WaveformConvolutions, WaveformEmbedding
from dragoman.shared.objectives.masked import MaskedTokens
from dragoman.shared.padded import Padded
from dragoman.st.fat import (
    MASKED,
    Deconvolution,
    FatModel,
    FusedMasking,
    MaskedFilterbank,
    MaskedFrames,
    MaskedWaveform,
)
from tests import small
from tests.small import refuses

WIDTH, BINS, VOCABULARY = 16, 8, 12


def text_embedding(shared_with=None):
    return small.embedding(VOCABULARY, type_vector=TypeVector(width=WIDTH), shared_with=shared_with)


def filterbank(probability=0.5):
    embedding = small.speech_embedding(bins=BINS, type_vector=TypeVector(width=WIDTH))
    masking = SpanMasking(width=BINS, probability=probability, span=3, least=1)
    return MaskedFilterbank(embedding=embedding, masking=masking)


def model(speech=None):
    torch.manual_seed(1)
    source = text_embedding()
    texts = {"source": source, "target": text_embedding(source)}
    tied = {name: TiedProjection(embedding=text, bias=True) for name, text in texts.items()}
    heads = {name: MaskedTokenHead(width=WIDTH, projection=one) for name, one in tied.items()}
    heads = {"speech": Deconvolution(width=WIDTH, bins=BINS, channels=2)} | heads
    embeddings = {"speech": speech or filterbank()} | texts
    return FatModel(embeddings=embeddings, encoder=small.encoder(2), heads=heads).eval()


def objective(**options):
    parts = [MaskedTokens(head=name, field=name, memory=name, prefix=f"{name}.") for name in ("source", "target")]
    return small.objective(model(**options), cls=FusedMasking, parts=[MaskedFrames(), *parts])


def batch(*names):
    torch.manual_seed(2)
    fields = {"speech": small.padded(torch.randn(n) * 0.1 for n in (6000, 3700, 5100))}
    for name, lengths in (("source", (4, 6, 5)), ("target", (7, 3, 5))):
        fields[name] = small.drawn(lengths, VOCABULARY)
        fields[f"{name}.places"] = small.padded([[1, 2]] * 3)
        fields[f"{name}.labels"] = small.drawn([2] * 3, VOCABULARY)
    return Batch({name: value for name, value in fields.items() if name.split(".")[0] in names})


ALL = ("speech", "source", "target")


def test_each_row_is_encoded_as_its_own_parts_joined_without_padding():
    fat, rows = model(), batch(*ALL)
    found = fat.encode(rows).memories
    for number in range(3):
        pieces = []
        for name in ALL:
            alone = rows[name].select(torch.tensor([number]))
            cut = Padded(alone.values[:, : int(alone.lengths[0])], alone.lengths)
            pieces.append(fat.embeddings[name](cut).values[0])  # positions begin anew in each
        states = fat.encoder(Padded(torch.cat(pieces)[None], torch.tensor([sum(map(len, pieces))])))[0].values[0]
        for name, expected in zip(ALL, states.split([len(piece) for piece in pieces]), strict=True):
            torch.testing.assert_close(found[name].rows()[number], expected, atol=1e-5, rtol=1e-4)


def test_only_masked_frames_count_and_all_of_them_if_asked():
    train, rows = objective(), batch(*ALL)
    rows = train.prepare(rows)
    masked = rows[MASKED]
    assert (masked.values & ~masked.mask).sum() == 0 and 0 < masked.values.sum() < masked.mask.sum()
    fat = train.model
    with torch.no_grad():
        encoding = fat.encode(rows)
    target = fat.embeddings["speech"].embedding.features(rows["speech"]).values
    found = fat.heads["speech"](encoding.memories["speech"], masked.lengths).values.detach()
    for part, marked in ((MaskedFrames(), masked.values), (MaskedFrames(everywhere=True), masked.mask)):
        counted = marked.tolist()
        total, frames = 0.0, 0
        for row, marks in enumerate(counted):
            for frame, mark in enumerate(marks):
                if mark:
                    total += float(((found[row, frame] - target[row, frame]) ** 2).mean())
                    frames += 1
        term = part.terms(fat, rows, encoding)["speech"]
        assert term.sum.item() == pytest.approx(total, rel=1e-4)
        assert int(term.count) == int(part.counts(rows)["speech"]) == frames


def test_what_is_masked_is_not_seen():
    train, rows = objective(), batch("speech")
    bank = train.model.embeddings["speech"]
    masked = bank.draw(rows["speech"])
    features = bank.target(rows["speech"])
    expected = features.values.clone()
    for row, frame in masked.values.nonzero().tolist():
        expected[row, frame] = bank.masking.vector
    found = bank(rows["speech"], masked).values
    torch.testing.assert_close(found, bank.embedding.embed(Padded(expected, features.lengths)).values)


@pytest.mark.parametrize(
    "fields", [("speech",), ("source",), ("target",), ("speech", "source"), ("source", "target"), ALL]
)
def test_a_missing_field_leaves_its_parameters_without_gradient(fields):
    train = objective()
    rows = train.prepare(batch(*fields))
    counts = train.counts(rows)
    loss = train(rows)
    loss.check(counts)
    assert {name.split(".")[0] for name in loss.parts} == {*fields}
    loss.total(counts).backward()
    given = {name for name, parameter in train.model.named_parameters() if parameter.grad is not None}
    for field in ALL:
        own = {name for name in given if name.startswith((f"embeddings.{field}.", f"heads.{field}."))}
        own.discard("embeddings.source.tokens.weight")  # which serves the translation too
        assert bool(own) == (field in fields)
    assert any(name.startswith("encoder.") for name in given)


@pytest.mark.parametrize("strides", [[2, 2], [2, 1]])
def test_a_deconvolution_gives_as_many_frames_as_there_were(strides):
    torch.manual_seed(1)
    deconvolution = Deconvolution(width=4, bins=8, channels=3, strides=strides)
    rate = strides[0] * strides[1]
    subsampler = Conv1dSubsampler(inputs=8, channels=4, width=4, kernels=[5] * (strides.count(2)))
    for frames in range(1, 51):
        states = subsampler(Padded(torch.randn(1, frames, 8), torch.tensor([frames])))
        assert deconvolution(states, torch.tensor([frames])).values.shape == (1, frames, 8)
    for states in (51 // rate, 51 // rate + 2):  # one too few, one too many
        with pytest.raises(ValueError, match="cannot stand for 51 frames"):
            deconvolution(Padded(torch.randn(1, states, 4), torch.tensor([states])), torch.tensor([51]))


def test_a_deconvolved_row_does_not_depend_on_the_others_of_its_batch():
    torch.manual_seed(1)
    deconvolution = Deconvolution(width=4, bins=8, channels=3)
    states = Padded(torch.randn(2, 6, 4), torch.tensor([3, 6]))
    for frames in (11, 12):  # the twelfth is the one that the padding's first would reach
        together = deconvolution(states, torch.tensor([frames, 22])).rows()[0]
        alone = deconvolution(Padded(states.values[:1, :3], torch.tensor([3])), torch.tensor([frames])).rows()[0]
        torch.testing.assert_close(together, alone)


def test_a_deconvolution_is_a_sum_over_its_kernel():
    """A loop over one transposed convolution: every input adds its kernel, twice as far apart."""
    torch.manual_seed(1)
    layer = Deconvolution(width=4, bins=8, channels=1).convolutions[0]
    x = torch.randn(1, 1, 3, 2)
    expected = layer.bias.expand(8, 6).clone()
    for i in range(3):
        for j in range(2):
            expected[2 * i : 2 * i + 4, 2 * j : 2 * j + 4] += x[0, 0, i, j] * layer.weight[0, 0]
    torch.testing.assert_close(layer(x)[0, 0], expected[1:-1, 1:-1])


def test_a_convolutional_front_end_masks_two_frames_for_each_of_its_own():
    torch.manual_seed(1)
    embedding = WaveformEmbedding(
        convolutions=WaveformConvolutions(convolutions=[[4, 400, 320]]),
        positions=ConvolutionalPositions(width=WIDTH, kernel=4, groups=2),
        masking=SpanMasking(width=WIDTH, probability=0.5, span=2, least=1),
    ).eval()
    speech = MaskedWaveform(embedding=embedding, frontend=Fbank(bins=BINS), normalisation=UtteranceNorm())
    rows = batch("speech")
    masked = speech.draw(rows["speech"])
    assert masked.lengths.tolist() == speech.target(rows["speech"]).lengths.tolist()
    for marks in masked.rows():
        whole = len(marks) // 2 * 2
        assert (marks[0:whole:2] == marks[1:whole:2]).all()
    places = masked.values[:, ::2]
    frames = embedding.frames(rows["speech"])
    torch.testing.assert_close(speech(rows["speech"], masked).values, embedding.embed(frames, places).values)
    embedding.train()
    torch.manual_seed(3)
    first = embedding.embed(frames, torch.zeros_like(places)).values
    torch.manual_seed(3)
    torch.testing.assert_close(speech(rows["speech"]).values, first)  # masks nothing that nobody asked for
    train = objective(speech=speech.eval())
    train.model.heads["speech"] = Deconvolution(width=WIDTH, bins=BINS, channels=2, strides=[2, 1])
    rows = train.prepare(rows)
    train(rows).check(train.counts(rows))


def test_what_does_not_fit_is_refused():
    bank = filterbank().embedding
    wide = SpanMasking(width=9)
    refuses(ValueError, "do not fit features of 8 bins", MaskedFilterbank, embedding=bank, masking=wide)
    bank.augmentation = torch.nn.Identity()
    message = "set spec_augment and waveform_augmentation to null"
    refuses(UsageError, message, MaskedFilterbank, embedding=bank, masking=SpanMasking(width=8))
    refuses(ValueError, "Deconvolution: strides: item 0: 4 is not one of 1, 2", Deconvolution, width=4, strides=[4])
    small.refuses(ValueError, "multiple of 4", Deconvolution, width=4, bins=9)
    small.refuses(UsageError, "has no head 'other', only speech", MaskedFrames(head="other").check, model())
    other = model()
    other.heads["speech"] = Deconvolution(width=WIDTH, bins=2 * BINS)
    small.refuses(UsageError, "makes features of 16 bins, but those of the speech have 8", MaskedFrames().check, other)
    strange = Batch({"other": batch("speech")["speech"]}, {}, [], "more")
    refuses(UsageError, "stream 'more' has no field", objective().counts, strange)
    small.refuses(UsageError, "none of the fields", model().encode, Batch({}, {}, ["a"], "more"))
