"""Speech models of fairseq compute here what fairseq computes with them, whatever batch they stand in.

``fairseq_speech/`` holds what make_fairseq_speech_fixtures.py wrote: checkpoints, and the numbers of fairseq itself.
"""

import json
import math
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from dragoman import BeamSearch, CtcGreedySearch, DataError, Rules, System
from dragoman.exchange.fairseq.fairseq_import import import_fairseq
from dragoman.exchange.fairseq.fairseq_names import PARTS, counterparts
from dragoman.exchange.fairseq.fairseq_s2t import subsampler_counterparts
from dragoman.exchange.fairseq.fairseq_wav2vec2 import FINE_TUNED, names_of
from dragoman.exchange.wav2vec2_model import counterparts as waveform_counterparts
from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.st.wav2vec2 import DISTRACTORS, MASKED, ContrastivePretraining
from tests.parity.fairseq_cases import FILES, HERE, beginnings, check_gradients, waveforms, weighted
from tests.parity.speech_models import without_noise

WAVEFORM = ["waveform_base", "waveform_large", "waveform_unprojected"]
CTC = ["waveform_ctc", "waveform_ctc_2020"]
S2T = ["s2t_utterance", "s2t_global", "s2t_tagged"]


def imported(name: str, tmp_path: Path) -> tuple[ReadingModel, dict[str, torch.Tensor]]:
    """Return the system after its way through a folder, and fairseq's numbers."""
    system, report = import_fairseq(HERE / name, source_languages=["en"])
    report.check()
    system.save(tmp_path / "model")
    return ReadingModel.load(tmp_path / "model"), load_file(HERE / name / "expected.safetensors")


def described(name: str) -> str:
    """Return what a case is called in the table."""
    kind = "S2T Transformer" if name in S2T else "wav2vec 2.0, CTC" if name in CTC else "wav2vec 2.0"
    return f"{kind} ({name.partition('_')[2].replace('_', ' ')})"


@pytest.mark.parametrize("name", [*WAVEFORM, *CTC])
def test_states_logits_and_gradients_of_waveform_models(name, tmp_path, compared):
    compared.named("fairseq", described(name))
    system, numbers = imported(name, tmp_path)
    model = system.model
    plan_names = names_of(_plan(model))
    frozen = model.embeddings["speech"].convolutions.gradient_scale == 0
    assert frozen == (name in CTC)  # fairseq's default is not to train them then
    encoding = model.encode(Batch({"speech": waveforms()}))
    if name in CTC:
        head = model.heads["ctc"]
        found, kind = model.tap(encoding, head.tap).map(head), "logits"
    else:
        found, kind = encoding.memories["source"], "states"
    for row, values in enumerate(found.rows()):
        compared.close(kind, values, numbers[f"{kind}.{row}"])
    sum(weighted(values) for values in found.rows()).backward()
    prefix = FINE_TUNED if name in CTC else ""

    def theirs(ours: str) -> list[str]:
        parts = waveform_counterparts(ours, plan_names, dict(PARTS))
        return [part if part.startswith("w2v_encoder") else prefix + part for part in parts]

    if frozen:
        numbers = {name: value for name, value in numbers.items() if ".feature_extractor." not in name}
    check_gradients(model, theirs, numbers, compared)


def _plan(model):
    """Return what names depend on, read off the model."""
    layers = model.embeddings["speech"].convolutions.layers
    each = all(layer.norm is not None for layer in layers)
    return SimpleNamespace(convolutions=[None] * len(layers), norm_each=each)


def test_the_quantiser_is_imported_for_further_pretraining():
    system, report = import_fairseq(HERE / "waveform_base")
    assert report.elsewhere == []
    head = system.model.heads["contrastive"]
    theirs = torch.load(HERE / "waveform_base" / "checkpoint.pt", weights_only=False)["model"]
    groups, entries, width = head.quantiser.codes.shape
    for group in range(groups):
        assert torch.equal(head.quantiser.codes[group], theirs["quantizer.vars"][0, group * entries :][:entries])
    assert torch.equal(head.states.weight, theirs["final_proj.weight"])
    assert torch.equal(head.targets.weight, theirs["project_q.weight"])
    assert torch.equal(head.quantiser.logits.bias, theirs["quantizer.weight_proj.bias"])
    assert theirs["quantizer.vars"].shape == (1, groups * entries, width)


@pytest.mark.parametrize("name", ["waveform_base", "waveform_large"])
def test_the_loss_of_pretraining_with_its_penalty_and_its_gradients(name, monkeypatch, compared):
    compared.named("fairseq", described(name).replace("(", "pre-training ("))
    monkeypatch.setattr(torch.nn.functional, "gumbel_softmax", without_noise)
    numbers = load_file(HERE / name / "pretraining.safetensors")
    masked, distractors = numbers["masked"], numbers["distractors"].long()
    rows, frames = masked.shape
    steps = masked.sum(1)
    system, report = import_fairseq(HERE / name)
    report.check()
    objective = ContrastivePretraining(system=system, distractors=distractors.shape[2], diversity=0.1, penalty=10.0)
    objective.eval()
    objective.head.quantiser.train()
    objective.embedding.convolutions.gradient_scale = 0.1
    objective.at(100001)
    assert objective.code_temperature == pytest.approx(float(numbers["temp"]), rel=1e-6)
    speech = beginnings()
    assert objective.embedding.lengths(speech.lengths).tolist() == [frames] * rows
    drawn = {MASKED: Padded(masked, torch.full((rows,), frames)), DISTRACTORS: Padded(distractors, steps)}
    batch = Batch({"speech": speech}).with_fields(**drawn)
    found, counts = objective(batch), objective.counts(batch)
    size = float(numbers["sample_size"])
    assert size == int(steps.sum()) == int(counts["contrastive"])
    terms = [("contrastive", 1.0, "loss_0"), ("diversity", 0.1, "loss_1"), ("penalty", 10.0, "loss_2")]
    for term, weight, theirs in (*terms, ("code_perplexity", 1 / size, "code_perplexity")):
        torch.testing.assert_close(weight * found.parts[term].sum, numbers[theirs], rtol=1e-4, atol=0)
    told_apart = numbers["correct"] - numbers["alone"]  # fairseq counts frames that have no other to be told from
    assert float(found.parts["accuracy"].sum) == float(told_apart) > 0
    assert min(float(numbers[term]) for term in ("loss_1", "loss_2")) > 1e-3 * float(numbers["loss"])
    loss = found.total(counts)
    compared.close("loss", loss / (numbers["loss"] / size), 1.0)
    loss.backward()
    codes = objective.head.quantiser.codes
    numbers["gradient.quantizer.vars"] = numbers["gradient.quantizer.vars"].view_as(codes)
    plan_names = names_of(_plan(system.model))

    def theirs_of(ours: str) -> list[str]:
        return [*waveform_counterparts(ours, plan_names, dict(PARTS))]

    check_gradients(system.model, theirs_of, numbers, compared, least=1e-3)


def test_an_encoder_writes_nothing_and_says_so(tmp_path):
    system, _ = imported("waveform_large", tmp_path)
    assert isinstance(system, EncoderSystem)
    assert system.origin
    with pytest.raises(DataError, match="not a System: this model is an encoder, which writes nothing"):
        System.load(tmp_path / "model")


@pytest.mark.parametrize("name", CTC)
def test_transcripts_of_ctc_models_are_those_of_fairseqs_logits(name, tmp_path):
    system, numbers = imported(name, tmp_path)
    rows = ["<s>", "<pad>", "</s>", "<unk>", *"|ETAONI'"]
    found = system.hypotheses([str(file) for file in FILES], search=CtcGreedySearch(), keep_silence=True)
    for row, hypotheses in enumerate(found):
        best = [symbol for symbol, _ in groupby(numbers[f"logits.{row}"].argmax(-1).tolist()) if symbol]
        expected = "".join(rows[symbol] for symbol in best if symbol >= 4).replace("|", " ").strip()
        assert hypotheses[0].texts == {"transcript": expected}
    assert any(hypotheses[0].texts["transcript"] for hypotheses in found)
    assert system.output.tokenizer.encode("to eat") == [rows.index(letter) for letter in "TO|EAT|"]


@pytest.mark.parametrize("name", S2T)
def test_states_logits_and_gradients_of_s2t_transformers(name, tmp_path, compared):
    compared.named("fairseq", described(name))
    system, numbers = imported(name, tmp_path)
    model = system.model
    targets = [numbers[f"target.{row}"] for row in range(len(FILES))]
    prefix = Padded.from_sequences([torch.cat([torch.tensor([2]), target]) for target in targets], padding=1)
    encoding = model.encode(Batch({"speech": waveforms()}))
    for row, states in enumerate(encoding.memories["source"].rows()):
        compared.close("states", states, numbers[f"states.{row}"])
    logits = model.project(model.decode(prefix, encoding))
    for row, values in enumerate(logits):
        compared.close("logits", values, numbers[f"logits.{row}"])
    sum(weighted(values) for values in logits).backward()

    def theirs(ours: str) -> list[str]:
        parts = subsampler_counterparts(ours) or counterparts(ours)
        return [part.replace("encoder.layers.", "encoder.transformer_layers.") for part in parts]

    check_gradients(model, theirs, numbers, compared)
    assert compared.largest.keys() == {"states", "logits", "gradients"}


@pytest.mark.parametrize("name", S2T)
def test_beam_search_finds_what_fairseq_generate_found(name, tmp_path, compared):
    compared.named("fairseq", described(name))
    system, _ = imported(name, tmp_path)
    rules = Rules(maximum_length_ratio=0.0, maximum_length_extra=30, start_symbols=1)
    search = BeamSearch(beam=5, n_best=5, rules=rules)
    generated = json.loads((HERE / name / "generated.json").read_text(encoding="utf-8"))
    for batch_size in (1, 4):
        for code in sorted({one["language"] for one in generated}) if name == "s2t_tagged" else [None]:
            chosen = [number for number, one in enumerate(generated) if code in (None, one["language"])]
            sounds = [str(FILES[number]) for number in chosen]
            options = {"target_language": code, "search": search, "batch_size": batch_size}
            found = system.hypotheses(sounds, keep_silence=True, **options)
            for hypotheses, number in zip(found, chosen, strict=True):
                expected = generated[number]["hypotheses"]
                tokenizer = system.output.tokenizer
                pieces = [[tokenizer.symbol(token) for token in h.tokens if token != tokenizer.eos] for h in hypotheses]
                shown = [" ".join(piece for piece in row if not piece.startswith("<lang:")) for row in pieces]
                compared.same("hypotheses", shown, [one["pieces"] for one in expected])  # it prints no tags
                scores = [h.score / math.log(2) for h in hypotheses]
                compared.close("scores", scores, [one["score"] for one in expected])
    assert compared.equal["hypotheses"] == 2 * 5 * len(generated)
