"""Language models of transformers that learn to translate here: losses, gradients and what is handed back."""

import json

import numpy as np
import pytest
import torch

from dragoman import DataError, UsageError
from dragoman.exchange.exporting import export_huggingface, export_peft
from dragoman.exchange.importing import import_model
from dragoman.exchange.transformers_engine.lm_export import difference
from dragoman.exchange.transformers_engine.speech_llm import speech_language_model
from dragoman.shared.batches.loader import collate
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.search import BeamSearch, GreedySearch, Rules
from dragoman.shared.systems import pretrained
from dragoman.shared.systems.system import System
from dragoman.shared.training.tuning import LoRA, merged
from tests import small
from tests.small import refuses

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
from tests.parity.test_language_models import KINDS, LOUDER, SENTENCES, asked, written  # noqa: E402

pytestmark = pytest.mark.parity
OUTPUTS = ["die Katze sitzt", "ein Hund", "guten Morgen euch allen", "ja"]
ROWS = [
    {"id": str(n), "source_text": one, "target_text": other, "source_language": "en", "target_language": "de"}
    for n, (one, other) in enumerate(zip(SENTENCES, OUTPUTS, strict=True))
]
LANGUAGES = {"source_languages": ["en"], "target_languages": ["de"]}


def imported(folder, out, kind="qwen3", **options):
    written(folder, kind, **options)
    import_model(folder, out, engine="transformers", **LANGUAGES)
    return transformers.AutoTokenizer.from_pretrained(folder)


def batch_of(system, rows):
    return collate(rows, system.inputs | {"target": system.output}, np.random.default_rng(1))


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradients_are_those_of_the_library_where_prompts_have_no_labels(kind, recompute, tmp_path):
    tokenizer = imported(tmp_path / "theirs", tmp_path / "ours", kind)
    system = pretrained.load(folder=str(tmp_path / "ours"), changes={"model.recompute": recompute}).train()
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy(label_smoothing=0.0)])
    batch = batch_of(system, ROWS)
    loss = objective(batch).total()
    loss.backward()

    theirs, total, count = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs"), 0, 0
    for row in ROWS:
        prompt = asked(tokenizer, row["source_text"])["input_ids"][0].tolist()
        output = [*tokenizer(row["target_text"], add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        labels = torch.tensor([[-100] * len(prompt) + output])
        total += theirs(input_ids=torch.tensor([prompt + output]), labels=labels).loss * len(output)
        count += len(output)
    (total / count).backward()
    assert loss.item() == pytest.approx(total.item() / count, abs=1e-5)
    assert objective.counts(batch)["cross_entropy"] == count
    for (name, own), other in zip(system.model.lm.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad, atol=2e-5, rtol=1e-3, msg=name)


def test_a_model_that_changes_its_logits_is_refused(tmp_path, monkeypatch):
    """Granite divides them: a loss over the states would be another one."""
    kind = (transformers.GraniteForCausalLM, transformers.GraniteConfig, {"logits_scaling": 2.0, "eos_token_id": 2})
    monkeypatch.setitem(KINDS, "granite", kind)
    monkeypatch.setitem(LOUDER, "granite", 2.5)
    imported(tmp_path / "theirs", tmp_path / "ours", "granite")
    system = pretrained.load(folder=str(tmp_path / "ours"))
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy()])
    refuses(UsageError, "a granite changes its logits, and cannot be trained here", objective, batch_of(system, ROWS))


def test_an_adapter_beside_the_map_to_the_vocabulary_is_refused(tmp_path):
    imported(tmp_path / "theirs", tmp_path / "ours", "llama")
    system = pretrained.load(folder=str(tmp_path / "ours"))
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy()])
    LoRA(targets=r".*\.lm_head").apply(objective)
    refuses(UsageError, "the map to the vocabulary .* has no adapter here", objective, batch_of(system, ROWS))


def test_what_is_too_long_is_named(tmp_path):
    imported(tmp_path / "theirs", tmp_path / "ours")
    system = pretrained.load(folder=str(tmp_path / "ours"))
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy()])
    long = "a dog and " * 200
    match = r"row '{}': its '{}' is too long for the model: \d+ tokens of prompt and output, and the model has 512"
    rows = [[ROWS[0], ROWS[1] | {column: long}] for column in ("source_text", "target_text")]
    refuses(DataError, match.format("1", "source"), objective, batch_of(system, rows[0]))
    refuses(DataError, match.format("1", "target"), objective, batch_of(system, rows[1]))
    refuses(DataError, match.format("a dog and .*", "source"), system.translate, [SENTENCES[0], long])


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    written(tmp_path / "theirs", "qwen3")
    for file in tmp_path.glob("theirs/tokenizer*"):
        file.unlink()
    options = {"engine": "transformers"} | LANGUAGES
    refuses(DataError, "theirs: has no tokenizer", import_model, tmp_path / "theirs", tmp_path / "ours", **options)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_exported_generates_the_same(kind, tmp_path):
    tokenizer = imported(tmp_path / "theirs", tmp_path / "ours", kind)
    system = pretrained.load(folder=str(tmp_path / "ours"))
    with torch.no_grad():
        for parameter in system.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    system.save(tmp_path / "tuned")
    options = {"quantization": "float32", "compare": [], "limit": 0, "like": tmp_path / "theirs"}
    export_huggingface(tmp_path / "tuned", tmp_path / "out", **options)
    names = {path.name for path in (tmp_path / "theirs").iterdir()}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    before = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    compared = changed = 0
    for beam in (1, 3):
        rules = Rules(maximum_length_extra=20)
        search = GreedySearch(rules=rules) if beam == 1 else BeamSearch(beam=beam, rules=rules)
        found = System.load(tmp_path / "tuned").hypotheses(SENTENCES, search=search)
        for text, [best] in zip(SENTENCES, found, strict=True):
            prompt = asked(tokenizer, text)
            how = {"max_new_tokens": 20, "num_beams": beam, "do_sample": False, "early_stopping": True}
            new, old = (
                [id for id in model.generate(**prompt, **how)[0, prompt["input_ids"].shape[1] :].tolist() if id != 3]
                for model in (theirs, before)
            )
            if beam == 1 or 2 in new:  # else the longest outputs compete, which ours are made to end
                compared += 1
                assert best.tokens[:19] == new[:19], (text, best)
            changed += new != old
    assert compared >= 4 and changed


def test_an_export_is_of_the_folder_that_was_imported(tmp_path):
    imported(tmp_path / "theirs", tmp_path / "ours")
    options = {"quantization": "float32", "compare": [], "limit": 0}

    def refused(match, like):
        refuses(UsageError, match, export_huggingface, tmp_path / "ours", tmp_path / "out", like=like, **options)

    refused("imported from its layout with --like", None)
    other = written(tmp_path / "other", "qwen3")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.5}))
    refused("config.json.rms_norm_eps is 1e-06, not 0.5", other)
    (other / "config.json").write_text(json.dumps(config))
    (other / "tokenizer.json").write_text((other / "tokenizer.json").read_text() + "\n")
    refused("its tokenizer is another one", other)


# -- adapters ---------------------------------------------------------------------------------------------------------

OPTIONS = {"quantization": "float32", "compare": [], "limit": 0}
TARGETS = {
    "all": r".*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)",
    "some": r".*layers\.1.*\.(v|up)_proj",
}


def with_adapters(system, targets, rank=3):
    """Give a system adapters that have learned something; return what its logits are then of, and save the sums."""
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy()])
    tuning = LoRA(targets=targets, rank=rank, alpha=2 * rank)
    tuning.apply(objective)
    generator = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for name, parameter in objective.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    tensors = merged(objective.state_dict(), tuning.scale)
    return {name.removeprefix("system."): tensor for name, tensor in tensors.items()}


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_peft_puts_the_adapter_into_the_original(kind, targets, tmp_path, capsys):
    imported(tmp_path / "theirs", tmp_path / "ours", kind)
    tensors = with_adapters(pretrained.load(folder=str(tmp_path / "ours")), TARGETS[targets])
    system = pretrained.load(folder=str(tmp_path / "ours"))
    system.load_state_dict(tensors)
    system.save(tmp_path / "tuned")
    export_peft(tmp_path / "tuned", tmp_path / "out", like=tmp_path / "theirs", **OPTIONS)
    maps = 14 if targets == "all" else 2
    assert f"an adapter of rank 3 beside {maps} maps" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"adapter_model.safetensors", "adapter_config.json"}
    check_logits(system, tmp_path)


def check_logits(system, tmp_path):
    """Compare the logits of a system's language model with those of the original with the adapter, and without it."""
    before = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    ids = torch.randint(4, 250, (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ours, old = system.model.lm.eval()(input_ids=ids).logits, before(input_ids=ids).logits
        theirs = peft.PeftModel.from_pretrained(before, tmp_path / "out").eval()(input_ids=ids).logits
    assert (ours - old).abs().max() > 0.1
    torch.testing.assert_close(theirs, ours, atol=2e-5, rtol=1e-4)


def test_of_a_speech_language_model_the_projector_stays_here(tmp_path, capsys):
    written(tmp_path / "theirs", "qwen3")
    import_model(tmp_path / "theirs", tmp_path / "ours", engine="transformers", prompt="{text}", **LANGUAGES)
    llm = pretrained.load(folder=str(tmp_path / "ours"))
    tensors = with_adapters(pretrained.load(folder=str(tmp_path / "ours")), TARGETS["all"])
    llm.load_state_dict(tensors)
    speech = small.speech_embedding(width=llm.model.width)
    prompts = {"transcript": "{audio} In {source_language}:"}
    system = speech_language_model(speech=speech, llm=llm, prompts=prompts, task="transcript", **LANGUAGES)
    system.save(tmp_path / "joined")
    export_peft(tmp_path / "joined", tmp_path / "out", like=tmp_path / "theirs", **OPTIONS)
    count = sum(parameter.numel() for parameter in speech.parameters())
    wanted = f"without the encoder of speech and the projector ({count:,} parameters)"
    assert wanted in capsys.readouterr().out
    check_logits(system, tmp_path)
    export_huggingface(tmp_path / "joined", tmp_path / "whole", like=tmp_path / "theirs", **OPTIONS)
    assert wanted in capsys.readouterr().out
    whole = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "whole").state_dict()
    assert all(tensor.equal(whole[name]) for name, tensor in system.model.lm.state_dict().items())


def test_an_average_of_adapters_has_their_ranks_together():
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(40, 60, generator=generator)
    sums = [
        weight + torch.randn(40, 5, generator=generator) @ torch.randn(5, 60, generator=generator) for _ in range(3)
    ]
    mean = sum(sums) / 3
    down, up = difference(weight, mean)
    assert down.shape == (15, 60) and up.shape == (40, 15)
    torch.testing.assert_close(weight + up @ down, mean, atol=2e-5, rtol=0)
    assert difference(weight, weight + torch.randn(40, 60, generator=generator)) is None


def test_what_is_no_adapter_is_refused(tmp_path):
    options = OPTIONS | {"like": tmp_path / "theirs"}
    imported(tmp_path / "theirs", tmp_path / "ours")

    def refused(match, changed):
        system = pretrained.load(folder=str(tmp_path / "ours"))
        with torch.no_grad():
            for name, parameter in system.named_parameters():
                if name.endswith(changed):
                    parameter += 0.1 * torch.randn_like(parameter)
        system.save(tmp_path / "tuned")
        refuses(
            UsageError, match, export_peft, tmp_path / "tuned", tmp_path / "out", like=tmp_path / "theirs", **OPTIONS
        )

    refused("tuned: has the weights of .*theirs: there is no adapter", ("nothing",))
    refused("layers.0.self_attn.q_proj.weight has learned more than an adapter", ("q_proj.weight",))
    refused("model.norm.weight has learned more .* or is no linear map", ("model.norm.weight",))
    refuses(
        UsageError, "peft is for language models", export_peft, small.GOLDEN, tmp_path / "out", like=None, **OPTIONS
    )
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "letter.txt").write_text("dear")
    arguments = (tmp_path / "tuned", tmp_path / "held")
    refuses(DataError, "something other than a model", export_peft, *arguments, **options)
