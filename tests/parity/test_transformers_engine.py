"""Encoder-decoders of transformers: the same ids, states and outputs as there, from tiny random weights.

Outputs and scores equal those of ``generate(early_stopping=True)``. At the longest length fairseq's rule, ours,
forces the end symbol; the library does if it is told to (``forced_eos_token_id``), and neither lets it cost anything.
"""

import shutil

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file, save_file

from dragoman import DataError, UsageError
from dragoman.exchange.importing import import_model
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.rescoring import score_rows
from dragoman.shared.search import BeamSearch, GreedySearch, Rules
from dragoman.shared.systems.system import System
from dragoman.simultaneous.listening import Listener
from dragoman.simultaneous.policies import AlignAtt, Hold
from tests.parity.library_models import SENTENCES, Canary, Mixture, OlderSeamless, Seamless, changed, noise, told
from tests.small import refuses

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

FAMILIES = {"seamless": Seamless, "seamless_1": OlderSeamless, "mixture": Mixture, "canary": Canary}
CASES = [(name, reads) for name, family in FAMILIES.items() for reads in family.reads]
LIMIT = 12
RULES = Rules(maximum_length_extra=LIMIT, minimum_length=0, forced_free=True)


@pytest.fixture(scope="module", autouse=True)
def calm():
    """Keep the library from telling at length."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


@torch.no_grad()
def looped(self, states, first, weights):
    """Mix experts token by token: what the library's own code does not do."""
    rows = []
    for state, row in zip(states, weights, strict=True):
        two = [row[e] * self[f"expert_{e}"](state[None])[0] for e in range(len(row)) if row[e] > 0]
        assert len(two) == 2
        rows.append(0.8 * sum(two))
    return torch.stack(rows)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, calm):
    """By family: the library's side, and the same as a model folder's system."""
    made = {}

    def get(name):
        if name not in made:
            theirs = FAMILIES[name](transformers, tmp_path_factory.mktemp(name))
            out = tmp_path_factory.mktemp("out") / "model"
            report = import_model(theirs.folder, out, engine="transformers")
            assert not report.missing and not report.unexpected and not report.reshaped
            assert all(tensor.startswith(("t2u_model.", "vocoder.")) for tensor in report.elsewhere)
            made[name] = theirs, System.load(out)
        return made[name]

    return get


@pytest.fixture(params=CASES, ids="-".join)
def case(request, folders, monkeypatch):
    """The library's side, the system at a task, and what it is given."""
    from transformers.models.nllb_moe import modeling_nllb_moe

    monkeypatch.setattr(modeling_nllb_moe.NllbMoeExperts, "forward", looped)
    name, reads = request.param
    theirs, system = folders(name)
    assert [*system.inputs] == theirs.reads and system.reads == theirs.reads[:1]
    return theirs, system.for_task(reads=[reads]), noise() if reads == "speech" else SENTENCES


def found(system, items, search):
    common = {"source_language": "en", "target_language": "de"}
    if system.reads == ["speech"]:
        common |= {"keep_silence": True, "sample_rate": 16000}
    return system.hypotheses(items, search=search, **common)


@torch.no_grad()
def generated(theirs, system, item, beam):
    """Return the tokens that the library writes, without the start, and their score."""
    start, asked = theirs.start("de"), {"num_beams": beam, "early_stopping": True} if beam > 1 else {}
    forced = len(system.output.prefix) - len(start)  # which do not end, and count in the limit of both
    written = theirs.model(system.reads[0]).generate(
        **theirs.inputs(item),
        **theirs.options("de"),
        **asked,
        do_sample=False,
        max_new_tokens=LIMIT + 1,
        forced_eos_token_id=theirs.end,
        return_dict_in_generate=True,
        output_scores=True,
    )
    assert written.sequences[0, : len(start)].tolist() == start
    return told(written, len(start), theirs.end, beam, forced)


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_are_those_of_generate(case, beam):
    theirs, system, items = case
    search = GreedySearch(rules=RULES) if beam == 1 else BeamSearch(beam=beam, rules=RULES)
    outputs = found(system, items, search)
    for item, [best] in zip(items, outputs, strict=True):
        tokens, score = generated(theirs, system, item, beam)
        assert best.tokens == tokens
        assert best.score == pytest.approx(score, abs=2e-4)
    assert len({tuple(best.tokens) for [best] in outputs}) >= 2


def test_a_batch_changes_nothing(case):
    _, system, items = case
    search = BeamSearch(beam=2, rules=RULES)
    together = found(system, items, search)
    for item, [best] in zip(items, together, strict=True):
        [[alone]] = found(system, [item], search)
        assert alone.tokens == best.tokens and alone.score == pytest.approx(best.score, abs=1e-4)


def rows_of(system, items, folder):
    """Rows of a manifest with a given output each."""
    outputs = ["ein Hund", "yes", "the cat sat on the mat", "Guten Morgen"]
    for number, (item, output) in enumerate(zip(items, outputs, strict=True)):
        row = {"id": str(number), "source_language": "en", "target_language": "de", "target_text": output}
        if isinstance(item, str):
            yield row | {"source_text": item}
            continue
        soundfile.write(folder / f"{number}.wav", item, 16000, subtype="FLOAT")
        yield row | {"audio": str(folder / f"{number}.wav"), "start": 0.0, "duration": len(item) / 16000}


@torch.no_grad()
def test_given_outputs_are_scored_as_the_library_scores_them(case, tmp_path):
    theirs, system, items = case
    rows = [*rows_of(system, items, tmp_path)]
    for number, total, tokens in score_rows(system, rows, budget=Budget(rows=4), autocast=system.autocast):
        start = theirs.start("de")
        given = theirs.tokenizer(rows[number]["target_text"], add_special_tokens=False)["input_ids"]
        written = [*(id for id in theirs.options("de").values() if isinstance(id, int)), *given, theirs.end]
        inputs = {**theirs.inputs(items[number])}
        inputs["decoder_input_ids"] = torch.tensor([start + written])
        scores = theirs.model(system.reads[0])(**inputs).logits[0].log_softmax(-1)
        ids = [*start, *written]
        counted = range(system.start_symbols, len(ids))  # as in a search
        assert tokens == len(counted) == len(system.output.prefix) - system.start_symbols + len(given) + 1
        assert total == pytest.approx(sum(float(scores[place - 1, ids[place]]) for place in counted), rel=1e-4)


@pytest.mark.parametrize("name", ["seamless", "seamless_1", "mixture"])
def test_texts_have_the_ids_of_the_library(folders, name):
    theirs, system = folders(name)
    for text in (*SENTENCES, "Grüße, 東京 and  two spaces"):
        row = {"id": "1", "source_text": text, "source_language": "fr", "target_language": "de"}
        ids = system.inputs["source"](row, np.random.default_rng(1)).tolist()
        assert ids == theirs.inputs(text, "fr")["input_ids"][0].tolist()
    typed = {"id": "1", "source_text": f"a </s> {[*theirs.tags.values()][0]} b", "source_language": "fr"}
    ids = system.inputs["source"](typed, np.random.default_rng(1)).tolist()
    assert ids.count(theirs.end) == 1  # what a user types is text


@pytest.mark.parametrize("name", FAMILIES)
def test_a_folder_holds_plain_data_and_no_weight_twice(folders, tmp_path, name):
    theirs, system = folders(name)
    system.save(tmp_path / "again")
    config = (tmp_path / "again" / "config.json").read_text()
    assert "auto_map" not in config and "model_type" in config
    names = [*system.state_dict()]
    assert len(names) == len({value.data_ptr() for value in system.state_dict().values()})
    again = System.load(tmp_path / "again")
    items = noise()[:1] if "speech" in system.reads else SENTENCES[:1]
    search = BeamSearch(beam=2, rules=RULES)
    assert found(again, items, search)[0][0].tokens == found(system, items, search)[0][0].tokens


def test_transcripts_are_outputs_in_the_language_that_is_heard(folders):
    for name in ("seamless", "canary"):
        theirs, system = folders(name)
        writer = system.for_task(writes="transcript")
        prefix = writer.prefix(["fr"], sources=["fr"]).values[0].tolist()
        wanted, heard = theirs.start("fr"), theirs.tokenizer.convert_tokens_to_ids(["<|en|>", "<|fr|>"])
        assert prefix == [heard[1] if name == "canary" and id == heard[0] else id for id in wanted]


def test_a_model_of_one_encoder_reads_that_alone(tmp_path):
    theirs = Seamless(transformers, tmp_path / "all")
    for reads in ("speech", "source"):
        folder = tmp_path / reads
        theirs.model(reads).save_pretrained(folder)
        theirs.processor.save_pretrained(folder)
        report = import_model(folder, tmp_path / f"{reads}_model", engine="transformers")
        assert not report.missing and not report.unexpected and not report.elsewhere
        system = System.load(tmp_path / f"{reads}_model")
        assert [*system.inputs] == [reads]
        items = noise()[:1] if reads == "speech" else SENTENCES[:1]
        tokens, _ = generated(theirs, system, items[0], 1)
        assert found(system, items, GreedySearch(rules=RULES))[0][0].tokens == tokens


@pytest.mark.parametrize("name", ["seamless", "canary"])
def test_a_listener_ends_with_the_output_of_all_that_was_heard(folders, name):
    _, system = folders(name)
    search, common = BeamSearch(beam=2, rules=RULES), {"source_language": "en", "target_language": "de"}
    listener = Listener(system, Hold(tokens=100), search=search, **common)
    for number, chunk in enumerate(torch.from_numpy(noise()[2]).split(11000)):
        assert not listener.written
        listener.hear(chunk, last=number == 2)
    [[whole]] = found(system, noise()[2:3], search)
    assert listener.written == [token for token in whole.tokens if token != system.output.tokenizer.eos]
    seeing = Listener(system, AlignAtt(frames=2), search=search, **common)
    refuses(UsageError, "no attention to sound", seeing.hear, torch.from_numpy(noise()[2]))


def test_bad_folders_are_named(tmp_path):
    theirs = Seamless(transformers, tmp_path / "good")
    count = 0

    def refused(match, error=DataError, config=None, family=None, change=None, **options):
        nonlocal count
        count += 1
        folder = tmp_path / str(count)
        if family is None:
            shutil.copytree(theirs.folder, folder)
        else:
            family(transformers, folder)
        if config:
            changed(folder, "config.json", **config)
        if change:
            change(folder)
        refuses(error, match, import_model, folder, tmp_path / "out", engine="transformers", **options)

    def without(name):
        return lambda folder: (folder / name).unlink()

    def with_more_symbols(folder, count):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        tokenizer.add_tokens([f"<extra {number}>" for number in range(count)])
        tokenizer.save_pretrained(folder)

    def not_numbers(folder):
        tensors = load_file(folder / "model.safetensors")
        tensors["text_decoder.layer_norm.weight"][3] = float("nan")
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    refused("auto_map is refused: no code", UsageError, config={"auto_map": {"AutoModel": "evil.Model"}})
    refused("quantization_config is refused", UsageError, config={"quantization_config": {"quant_method": "fp8"}})
    refused("no weights in the format safetensors", change=without("model.safetensors"))
    refused("text_decoder.layer_norm.weight holds values that are not finite", change=not_numbers)
    refused("has no feature extractor", change=without("processor_config.json"))
    refused("the model has no symbol for es, only for en, de, fr", UsageError, target_languages=["es"])
    refused("--prompt is for language models", UsageError, prompt="{text}")
    unread = {"blip": "and decoder-only language models", "whisper": "whisper is imported without --engine"}
    for kind, rest in unread.items():
        refused(f"'{kind}' is not read through transformers, only seamless_m4t.*{rest}", config={"model_type": kind})
    refuses(UsageError, "add --engine transformers", import_model, theirs.folder, tmp_path / "out")
    numbers = {"text_decoder_lang_to_code_id": {"eng": 5}}
    refused("eng is 5, but", change=lambda folder: changed(folder, "generation_config.json", **numbers))
    refused("has 369 symbols, and the model 300 vectors", change=lambda folder: with_more_symbols(folder, 300))
    refused("set it to 1", UsageError, family=Mixture, config={"moe_eval_capacity_token_fraction": 0.5})
    refused("drawn by chance", UsageError, family=Mixture, config={"second_expert_policy": "sampling"})
    template = "{% for part in messages[0].content if part.type == 'text' %}<|startofcontext|>{% endfor %}"
    refused(
        "chat template does not name",
        family=Canary,
        change=lambda folder: (folder / "chat_template.jinja").write_text(template),
    )
