"""COSTT: what the decoder attends to, what is forced, and how two texts come apart."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dragoman import GreedySearch, Rules, System, UsageError
from dragoman.exchange.importing import import_model
from dragoman.shared import described
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import collate
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.nn.heads import CtcHead, TiedProjection
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.objectives import CrossEntropy, Ctc, TaskObjective
from dragoman.shared.padded import Padded
from dragoman.shared.systems.combining import ensembled
from dragoman.shared.systems.pretrained import load
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from dragoman.st.chimera import BimodalContrastive
from dragoman.st.costt import Costt, CosttSystem, KeptShare, shrinking_translator
from dragoman.st.joined_text import JoinedText
from dragoman.st.slots import MemoryLayer, SlotEncoder
from tests import small
from tests.test_nouns import WORDS, embedding, layer

PARITY = Path(__file__).parents[1] / "parity"
LONGEST = 8
SEARCH = GreedySearch(rules=Rules(maximum_length_extra=LONGEST))


@pytest.fixture(autouse=True)
def rooms(monkeypatch):
    monkeypatch.setattr(described, "PACKAGES", (*described.PACKAGES, __name__))


class Renamed(SentencePieceTokenizer):
    """The same pieces, of another tokenizer."""

    def __init__(self, *, model, tags):
        super().__init__(model=model, tags=tags)
        self.fingerprint = "another"


def plain(tokenizer, column):
    return TextField(column=column, tokenizer=tokenizer, prefix=[], suffix=[])


def system_of(tokenizer, **options):
    torch.manual_seed(3)
    target = embedding(tokenizer)
    speech = small.speech_embedding()
    head = CtcHead(tap="acoustic", width=16, vocabulary=tokenizer.size, blank=tokenizer.blank)
    with torch.no_grad():  # every third state is a blank or so
        head.projection.weight *= 20
        head.projection.bias[tokenizer.blank] = 40.0
    model = Costt(
        embeddings={"speech": speech},
        acoustic=Encoder(layer=layer(), layers=1),
        encoder=Encoder(layer=layer(), layers=1),
        positions=SinusoidalPositions(width=16),
        target_embedding=target,
        decoder=Decoder(layer=layer(memories=["source"]), layers=1),
        projection=TiedProjection(embedding=target),
        heads={"ctc": head},
        **options,
    )
    fields = {"transcript": plain(tokenizer, "source_text"), "translation": plain(tokenizer, "target_text")}
    return CosttSystem(
        model=model,
        inputs={"speech": SpeechField(), "source": plain(tokenizer, "source_text")},
        output=JoinedText(fields=fields),
        ctc_output=TextField(column="source_text", tokenizer=tokenizer),
        source_languages=["en"],
        target_languages=["de"],
    ).eval()


def batch(system, rows, *names):
    fields = system.inputs | {"target": system.output, "transcript": system.ctc_output}
    return collate(rows, {name: fields[name] for name in names}, np.random.default_rng(0))


def test_the_decoder_attends_to_the_shrunk_states_with_new_positions(tokenizer, rows):
    system = system_of(tokenizer)
    model, data = system.model, batch(system, rows, "speech")
    encoding = model.encode(data)
    states = model.tap(encoding, "acoustic")
    memory = encoding.memories["source"]
    shrunk = []
    for row, length in enumerate(states.lengths.tolist()):
        path = model.heads["ctc"](states.values[row, :length]).argmax(-1).tolist()
        kept = [i for i, k in enumerate(path) if k != tokenizer.blank and (i == 0 or path[i - 1] != k)] or [0]
        shrunk.append(len(kept))
        alone = states.values[row, kept][None] + model.positions(len(kept), like=states.values)
        expected, _ = model.encoder(Padded(alone, torch.tensor([len(kept)])))
        torch.testing.assert_close(memory.values[row, : len(kept)], expected.values[0], atol=1e-5, rtol=1e-5)
        # neither the other rows nor their padding matter
        single = model.encode(batch(system, [rows[row]], "speech")).memories["source"]
        torch.testing.assert_close(single.values[0], memory.values[row, : len(kept)], atol=1e-4, rtol=1e-4)
    told = KeptShare().terms(model, batch(system, rows, "speech", "transcript"), encoding)
    labels = sum(len(tokenizer.encode(row["source_text"])) for row in rows)
    assert (int(told["kept_per_label"].sum), int(told["kept_per_label"].count)) == (sum(shrunk), labels)
    share = told["kept"]
    expected = sum(a / b for a, b in zip(shrunk, states.lengths.tolist(), strict=True)) / len(shrunk)
    assert float(share.sum / share.count) == pytest.approx(expected) and share.weight == 0
    assert memory.lengths.tolist() == shrunk and sum(shrunk) < 0.9 * int(states.lengths.sum())
    whole = Costt(**model.arguments | {"shrinking": False}).eval()
    assert torch.equal(whole.encode(data).memories["source"].lengths, states.lengths)


def test_labels_that_shrinking_loses_are_told():
    assert KeptShare().alarms({"kept": 0.1, "kept_per_label": 0.7}) == KeptShare().alarms({"nll": 1.0}) == []
    (line,) = KeptShare().alarms({"kept": 0.1, "kept_per_label": 0.5})
    assert "keeps 0.50 states for each label" in line


def test_both_losses_reach_the_acoustic_encoder_and_text_the_decoder_alone(tokenizer, rows):
    system = system_of(tokenizer).train()
    tasks = {"speech": [CrossEntropy(weight=0.5), Ctc(weight=0.5), KeptShare()], "text": [CrossEntropy(prefix="text.")]}
    objective = TaskObjective(system=system, tasks=tasks)
    model = system.model
    loss = objective(batch(system, rows, "speech", "target", "transcript"))
    loss.check(objective.counts(batch(system, rows, "speech", "target", "transcript")))
    parameter = next(model.acoustic.parameters())
    for name in ("cross_entropy", "ctc"):
        (gradient,) = torch.autograd.grad(loss.parts[name].sum, parameter, retain_graph=True)
        assert gradient.abs().sum() > 0, name
    text = Batch(**vars(batch(system, rows, "target")) | {"stream": "text"})
    objective(text).total(objective.counts(text)).backward()
    learns = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert {name.split(".")[0] for name in learns} == {"target_embedding", "decoder"}


def test_the_constant_memory_is_the_same_for_all_and_of_any_length(tokenizer, rows):
    system = system_of(tokenizer)
    model, data = system.model, batch(system, rows, "target")
    encoding = model.encode(data)
    prefix = Padded(data["target"].values[:, :-1], data["target"].lengths - 1)
    found = model.log_probabilities(prefix, encoding)
    ones = torch.ones(len(rows), 7, 16)
    longer = type(encoding)({"source": Padded(ones, torch.tensor([7, 1, 3, 2, 7, 5]))})
    torch.testing.assert_close(model.log_probabilities(prefix, longer), found, atol=1e-5, rtol=1e-5)


def test_a_read_source_is_the_forced_transcript(tokenizer, rows):
    system = system_of(tokenizer)
    for reads in (["source"], ["speech", "source"]):
        task = system.for_task(reads=reads)
        assert task.reads == reads and task.model is system.model
        data = batch(system, rows, *reads)
        found = task.translate_batch(data, SEARCH)
        for row, (one, word) in enumerate(zip(found, WORDS, strict=True)):
            assert one[0].texts["transcript"] == word
            tokens = [tokenizer.id("<de>"), *tokenizer.encode(word), tokenizer.sep]
            encoding = system.model.encode(data).select(torch.tensor([row]))
            best = one[0].tokens[len(tokens) - 1 :]
            for token in best[:3]:  # each is the decoder's best after what was forced
                at = Padded(torch.tensor([tokens]), torch.tensor([len(tokens)]))
                scores = system.model.log_probabilities(at, encoding)[0, -1]
                scores[tokenizer.pad] = -torch.inf
                ends = len(tokens) - 1 == LONGEST  # generated so far: all but the start symbol
                assert token == (tokenizer.eos if ends else int(scores.argmax()))
                tokens.append(token)
        small.refuses(UsageError, "forced already", task.translate_batch, data, SEARCH, forced=[[]] * len(rows))
    task = system.for_task(reads=["source"])
    assert task.translate("abc", search=SEARCH) == task.hypotheses(["abc"], search=SEARCH)[0][0].texts["translation"]


def test_transcripts_are_not_written_alone_and_both_texts_have_room(tokenizer):
    system = system_of(tokenizer)
    message = "transcript and translation are written together, not 'transcript' alone"
    small.refuses(UsageError, message, system.for_task, writes="transcript")
    assert system.for_task(writes="translation") is system
    assert system.default_search().rules.arguments["maximum_length_extra"] == 1000


def test_a_source_is_forced_without_its_symbols_and_a_typed_separator_is_text(tokenizer):
    system = system_of(tokenizer)
    tagged = TextField(column="source_text", tokenizer=tokenizer)
    other = CosttSystem(**system.arguments | {"inputs": system.inputs | {"source": tagged}})
    typed = f"{WORDS[0]}<sep>{WORDS[1]}"
    for word in (*WORDS, typed):
        both = (one.for_task(reads=["source"]) for one in (system, other))
        mine, theirs = (one.hypotheses([word], search=SEARCH)[0][0] for one in both)
        assert theirs.texts == mine.texts and theirs.tokens == mine.tokens
        assert theirs.texts["transcript"] == word
        ids = tokenizer.encode(word)
        assert theirs.tokens[: len(ids) + 1] == [*ids, tokenizer.sep] and tokenizer.sep not in ids


def test_shrunk_speech_and_text_meet_in_a_memory_of_slots(tokenizer, rows):
    """Slots read the shrunk states of speech, and the embedding of text."""
    system = system_of(tokenizer)
    memory = MemoryLayer(width=16, heads=2, feedforward=24, dropout=0.0)
    slots = SlotEncoder(layer=layer(), layers=1, memory_layer=memory, memory_layers=1, slots=3)
    embeddings = {"speech": system.model.embeddings["speech"], "source": embedding(tokenizer)}
    model = Costt(**system.model.arguments | {"embeddings": embeddings, "encoder": slots}).eval()
    data = batch(system, rows, "speech", "source", "target", "transcript")
    encoding = model.encode(data)
    states, kept = model.tap(encoding, "acoustic"), model.tap(encoding, "shrunk")
    for row, (length, memory) in enumerate(zip(kept.lengths.tolist(), encoding.memories["source"].values, strict=True)):
        alone = kept.values[row, :length][None] + model.positions(length, like=states.values)
        expected, _ = slots(Padded(alone, torch.tensor([length])))
        torch.testing.assert_close(memory, expected.values[0], atol=1e-5, rtol=1e-5)
    text, _ = slots(embeddings["source"](data["source"]))
    torch.testing.assert_close(model.encode(data, "source").memories["source"].values, text.values)
    share = KeptShare(source="speech").terms(model, data, encoding)["kept"]
    assert float(share.sum) == pytest.approx(float((kept.lengths / states.lengths).sum()))
    parts = [BimodalContrastive(), Ctc(source="speech"), KeptShare(source="speech")]
    arguments = {k: v for k, v in system.arguments.items() if k not in ("model", "output", "output_name")}
    both = System(**arguments | {"model": model, "output": plain(tokenizer, "target_text")})
    objective = TaskObjective(system=both, tasks={"speech": parts})
    loss = objective(data)
    loss.check(objective.counts(data))
    parameter = next(model.acoustic.parameters())
    (gradient,) = torch.autograd.grad(loss.parts["contrastive"].sum, parameter)
    assert gradient.abs().sum() > 0


def test_sound_shorter_than_a_frame_is_one_state_as_with_silence_behind_it(tokenizer, rows):
    """Neither the filterbank nor the convolutions see less than one frame of 400 samples."""
    system = system_of(tokenizer)
    sound = 0.1 * torch.randn(1, 160, generator=torch.Generator().manual_seed(5))
    filled = torch.nn.functional.pad(sound, (0, 240))
    encodings = [system.model.encode(small.batch(speech=one)) for one in (sound, filled)]
    one, other = (encoding.memories["source"] for encoding in encodings)
    assert one.lengths.tolist() == other.lengths.tolist() == [1]
    assert one.values.isfinite().all() and torch.equal(one.values, other.values)
    longer = collate(rows, {"speech": SpeechField()}, np.random.default_rng(0))["speech"].rows()[0]
    beside = Padded.from_sequences([sound[0], longer])
    found = system.model.encode(Batch({"speech": beside})).memories["source"]
    torch.testing.assert_close(found.values[0, :1], one.values[0], atol=1e-4, rtol=1e-4)


def test_the_folder_comes_back_with_both_texts_and_its_ctc_head(tokenizer, rows, tmp_path):
    system = system_of(tokenizer)
    system.save(tmp_path / "model")
    again = System.load(tmp_path / "model")
    assert type(again) is CosttSystem and list(again.texts) == ["transcript", "translation"]
    data = batch(system, rows, "speech")
    mine, theirs = (one.translate_batch(data, SEARCH) for one in (system, again))
    assert [h[0].tokens for h in mine] == [h[0].tokens for h in theirs]
    a, b = tokenizer.encode("ab")[-2:]
    assert again.texts_of([a, tokenizer.sep, b, tokenizer.eos]) == {"transcript": "a", "translation": "b"}
    assert again.texts_of([a, b, tokenizer.eos]) == {"transcript": "ab", "translation": ""}
    above = ("target_embedding.tokens.weight", "heads.ctc.projection.weight", "heads.ctc.projection.bias")
    assert {*again.tokenizers_of_rows()} == {f"model.{name}" for name in above}


def test_what_does_not_fit_is_refused(tokenizer):
    system = system_of(tokenizer)
    arguments = system.model.arguments
    wrong = CtcHead(tap=1, width=16, vocabulary=tokenizer.size, blank=tokenizer.blank)
    small.refuses(ValueError, "head 'ctc' whose tap is 'acoustic'", Costt, **arguments | {"heads": {"ctc": wrong}})
    small.refuses(ValueError, "learns by a head 'ctc'", Costt, **arguments | {"heads": {}})
    source = TextField(column="source_text", tokenizer=Renamed(**tokenizer.arguments))
    for changed, message in (
        ({"output_name": "transcript"}, "the last of the joined texts is 'translation', not 'transcript'"),
        ({"inputs": system.inputs | {"source": source}}, "must be text of the output's tokenizer"),
        ({"output": system.output.fields["translation"]}, "is a JoinedText, not a TextField"),
    ):
        small.refuses(UsageError, message, CosttSystem, **system.arguments | changed)
    message = "CrossEntropy reads the encoding of 'source', but the model has .* speech only"
    tasks = {"text": [CrossEntropy(source="source")]}
    small.refuses(UsageError, message, TaskObjective, system=system, tasks=tasks)


def test_two_folders_average_their_probabilities(tokenizer, rows):
    system = system_of(tokenizer)
    other = CosttSystem(**system.arguments | {"model": copy.deepcopy(system.model)}).eval()
    with torch.no_grad():
        for parameter in other.model.decoder.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    data = batch(system, rows, "speech")
    both = ensembled([system, other])
    assert list(both.texts) == ["transcript", "translation"]
    token = tokenizer.id("<de>")
    start = Padded(torch.full((len(rows), 1), token), torch.ones(len(rows), dtype=torch.int64))
    models = [one.model for one in (system, other)]
    mean = sum(m.log_probabilities(start, m.encode(data)).exp() for m in models)[:, 0] / 2
    mean[:, [tokenizer.pad, tokenizer.eos]] = 0.0
    found = both.translate_batch(data, SEARCH)
    assert [h[0].tokens[0] for h in found] == mean.argmax(-1).tolist()


def test_an_encoder_of_speech_is_shrunk_by_ctc_below_an_imported_translator(tmp_path):
    import_model(PARITY / "fairseq_speech" / "waveform_base", tmp_path / "speech")
    import_model(PARITY / "fairseq" / "denoising_pre_norm", tmp_path / "text", pieces="words")
    torch.manual_seed(2)
    speech, text = (load(folder=str(tmp_path / name)) for name in ("speech", "text"))
    given = {"speech": speech, "text": text, "source_languages": ["en"]}
    system = shrinking_translator(layers=1, channels=8, **given).eval()
    acoustic = system.model.acoustic
    system.save(tmp_path / "both")
    again, vectors = System.load(tmp_path / "both"), text.model.embeddings["source"].weight
    rows = [torch.randn(9000), torch.randn(5000)]
    batch = Batch({"speech": Padded.from_sequences(rows)})
    with torch.no_grad():
        found = [one.model.encode(batch).memories["source"].rows() for one in (system, again)]
        for number, row in enumerate(rows):
            below = speech.model.encode(Batch({"speech": Padded(row[None], torch.tensor([len(row)]))}))
            [one] = system.model.embeddings["speech"].subsampler.convolutions
            states = F.glu(
                F.conv1d(below.memories["source"].values.mT, one.weight, one.bias, stride=2, padding=1), 1
            ).mT
            states = acoustic(Padded(states, torch.tensor([states.shape[1]])))[0].values[0]
            labels, kept = (states @ vectors.T).argmax(1).tolist(), []
            for place, label in enumerate(labels):
                if label != text.inputs["source"].tokenizer.pad and (place == 0 or label != labels[place - 1]):
                    kept.append(states[place])
            assert 0 < len(kept) < len(labels)
            shrunk = torch.stack(kept)[None]
            wanted = text.model.encode_embedded(Padded(shrunk, torch.tensor([len(kept)]))).memories["source"].values[0]
            for ours in found:
                torch.testing.assert_close(ours[number], wanted, rtol=1e-4, atol=1e-4)
    [one, *_], [other] = text.model.encoder.layers, acoustic.layers
    assert one.inner.weight.shape == other.inner.weight.shape and not torch.equal(one.inner.weight, other.inner.weight)
    assert again.ctc_output.column == "source_text"
    said = "^text: Translator reads no text whose pieces could be labels$"
    del text.inputs["source"]
    small.refuses(UsageError, said, shrinking_translator, **given)
