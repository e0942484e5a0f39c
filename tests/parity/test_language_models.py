"""Decoder-only language models of transformers: the same ids and outputs as there, from tiny random weights."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from dragoman import DataError, UsageError
from dragoman.commands.glossary import Glossary, standing
from dragoman.commands.glossary_search import GlossarySearch
from dragoman.exchange.importing import import_model
from dragoman.exchange.transformers_engine.causal import CausalModel
from dragoman.exchange.transformers_engine.lm_import import PROMPT
from dragoman.shared.batch import Batch
from dragoman.shared.batches.loader import collate
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import TooLongError
from dragoman.shared.evaluation.outputs import ONE_LINE
from dragoman.shared.evaluation.rescoring import score_rows
from dragoman.shared.nn.combined import Ensemble
from dragoman.shared.padded import Padded
from dragoman.shared.search import BeamSearch, GreedySearch, Rules, SamplingSearch
from dragoman.shared.systems.system import System
from tests.small import refuses

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

SENTENCES = ["the cat sat on the mat", "a dog", "good morning to all of you, said the old man", "yes"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8}
SIZES |= {"num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 3, "bos_token_id": 1}
KINDS = {
    "qwen3": (
        transformers.Qwen3ForCausalLM,
        transformers.Qwen3Config,
        {"tie_word_embeddings": True, "eos_token_id": 2},
    ),
    "llama": (
        transformers.LlamaForCausalLM,
        transformers.LlamaConfig,
        {"tie_word_embeddings": False, "eos_token_id": 2},
    ),
    "gemma3": (transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig, {"sliding_window": 8, "eos_token_id": 2}),
}

#: What the vector of the end symbol is multiplied by, so that some outputs end before the limit.
LOUDER = {"qwen3": 2.5, "llama": 2.5, "gemma3": -6}


def written(folder, kind, *, template=TEMPLATE, metaspace=False, ends=(2,)):
    """Write a tiny model with a tokenizer, as the library does."""
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if metaspace:
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Prepend("▁"), pre_tokenizers.Metaspace()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([*SENTENCES, PROMPT] * 5, trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>", chat_template=template
    )
    fast.save_pretrained(folder)
    model_class, config_class, own = KINDS[kind]
    torch.manual_seed(7)
    model = model_class(config_class(vocab_size=len(fast) + 5, **SIZES | own)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # enough for outputs that differ
            if parameter.dim() > 1:
                parameter.normal_(std=1.0 if "embed" in name else 0.4)
        model.get_output_embeddings().weight[2] *= LOUDER[kind]
    model.generation_config.eos_token_id = list(ends)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=KINDS)
def imported(request, tmp_path_factory):
    """The library's tokenizer and model, and the same as a model folder's system."""
    folder = written(tmp_path_factory.mktemp(request.param), request.param)
    out = tmp_path_factory.mktemp("out") / "model"
    report = import_model(folder, out, engine="transformers", source_languages=["en"], target_languages=["de", "fr"])
    assert not report.missing and not report.unexpected and not report.reshaped
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    return transformers.AutoTokenizer.from_pretrained(folder), theirs, System.load(out)


def asked(tokenizer, text):
    named = (
        PROMPT.replace("{source_language}", "English").replace("{target_language}", "German").replace("{text}", text)
    )
    said = [{"role": "user", "content": named}]
    return tokenizer.apply_chat_template(said, add_generation_prompt=True, return_tensors="pt", return_dict=True)


@torch.no_grad()
def mean(model, start, output):
    scores = model(torch.tensor([start + output])).logits[0].log_softmax(-1)
    return float(sum(scores[len(start) + place - 1, token] for place, token in enumerate(output)) / len(output))


def test_prompts_have_the_ids_of_the_chat_template(imported):
    tokenizer, _, system = imported
    for text in (*SENTENCES, "Grüße, 東京\nand a second line "):
        row = {"id": "1", "source_text": text, "source_language": "en", "target_language": "de"}
        assert system.inputs["source"].whole(row) == asked(tokenizer, text)["input_ids"][0].tolist()


def test_the_lines_before_stand_in_the_prompt(tmp_path, dragoman, capfd):
    """Outputs are those of the prompt that a person writes; other models and inputs are refused."""
    folder = written(tmp_path / "theirs", "llama")
    named = {"engine": "transformers", "source_languages": ["en"], "target_languages": ["de"]}
    import_model(folder, tmp_path / "shown", prompt="{context} | {text}", **named)
    import_model(folder, tmp_path / "plain", prompt="{text}", **named)
    asked = ["--maximum-length-extra", 9, "--device", "cpu"]
    text = "".join(f"{line}\n" for line in SENTENCES)
    capfd.readouterr()  # what the library has printed
    code, output, _ = dragoman("translate", tmp_path / "shown", *asked, "--context", 1, text=text)
    shown = [f"{before} | {line}" for before, line in pairwise(["", *SENTENCES])]
    plain = System.load(tmp_path / "plain")
    search = BeamSearch(rules=Rules(maximum_length_extra=9))
    wanted = [one.translate(ONE_LINE) for one in plain.translate(shown, search=search)]
    assert code == 0 and output.split("\n") == [*wanted, ""]
    assert output != dragoman("translate", tmp_path / "shown", *asked, text=text)[1]
    code, _, messages = dragoman("translate", tmp_path / "plain", *asked, "--context", 1, text=text)
    assert code == 2 and "--context: this model takes none" in messages
    code, _, messages = dragoman("translate", tmp_path / "shown", *asked, "--context", 1, "--documents", text=text)
    assert code == 2 and "without --documents and --split" in messages


def test_what_a_user_types_is_no_symbol(imported):
    _, _, system = imported
    field = system.inputs["source"]
    row = {"id": "1", "source_text": "a <|im_end|> b", "source_language": "en", "target_language": "de"}
    ends = field.whole(row | {"source_text": "a b"}).count(system.output.tokenizer.eos)
    assert field.whole(row).count(system.output.tokenizer.eos) == ends == 1


def test_outputs_have_the_terms_of_a_glossary(imported):
    """Pieces of bytes have a space in front: a term has one form at the beginning of an output, and one behind it."""
    _, _, system = imported
    terms = Glossary.of([("1", "cat", "old man"), ("2", "mat", "dog")])
    search = BeamSearch(beam=3, rules=Rules(maximum_length_extra=20))
    held = GlossarySearch(search=search, glossary=terms, system=system)
    found = system.translate(SENTENCES, search=held, target_language="de")
    assert standing("old man", found[0], "de") and standing("dog", found[0], "de")
    assert found[1:] == system.translate(SENTENCES[1:], search=search, target_language="de")


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_are_those_of_generate(imported, beam):
    tokenizer, theirs, system = imported
    rules = Rules(maximum_length_extra=20)
    search = GreedySearch(rules=rules) if beam == 1 else BeamSearch(beam=beam, rules=rules)
    found, compared = system.hypotheses(SENTENCES, search=search, target_language="de"), 0
    for text, [best] in zip(SENTENCES, found, strict=True):
        prompt = asked(tokenizer, text)
        with torch.no_grad():
            ids = theirs.generate(**prompt, max_new_tokens=20, num_beams=beam, do_sample=False, early_stopping=True)
        start = prompt["input_ids"][0].tolist()
        new = [id for id in ids[0, len(start) :].tolist() if id != 3]
        ours = [id for id in best.tokens if id not in (0, 2, 3)]
        if beam == 1 or 2 in new:  # else the longest outputs compete, which ours are made to end
            compared += 1
            assert best.tokens[:19] == new[:19], (text, best)
        assert best.texts["translation"] == tokenizer.decode(ours, skip_special_tokens=True).strip()
    assert compared >= 2


def test_a_batch_changes_nothing_and_scores_are_those_of_the_library(imported):
    tokenizer, theirs, system = imported
    search = GreedySearch(rules=Rules(maximum_length_extra=12))
    together = system.hypotheses(SENTENCES, search=search, target_language="de")
    for text, [best] in zip(SENTENCES, together, strict=True):
        [[alone]] = system.hypotheses([text], search=search, target_language="de")
        assert alone.tokens == best.tokens and alone.score == pytest.approx(best.score, abs=1e-4)
        start = asked(tokenizer, text)["input_ids"][0].tolist()
        assert best.score == pytest.approx(mean(theirs, start, best.tokens), abs=1e-4)


POSITIONS = 60


@pytest.fixture(scope="module")
def bounded(tmp_path_factory):
    """The library's model with a vector for each of its positions, the same here, and the ids of a prompt."""
    torch.manual_seed(5)
    config = {"n_positions": POSITIONS, "n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 400}
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**config, eos_token_id=2, pad_token_id=3)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(20) if parameter.dim() > 1 else None
    model = CausalModel(config=theirs.config.to_dict(), ends=[2]).eval()
    model.lm.load_state_dict(theirs.state_dict())
    return theirs, model


def batch_of(*lengths):
    rows = [torch.arange(length) % 300 + 10 for length in lengths]
    return Batch({"source": Padded.from_sequences(rows)}, ids=[f"row {n}" for n, _ in enumerate(rows)]), rows


@pytest.mark.parametrize("search", [GreedySearch, BeamSearch, SamplingSearch])
@torch.no_grad()
def test_prompt_and_output_fill_the_positions_that_the_model_has(bounded, search):
    """A position more is an index out of range; a longer prompt beside one takes none of its positions."""
    theirs, model = bounded
    lengths = (POSITIONS - 20, POSITIONS - 5, POSITIONS - 2)
    batch, prompts = batch_of(*lengths)
    begin = Padded.from_sequences([torch.tensor([7])] * 3)
    for generator in (model, Ensemble(models=[model, model])):
        rules = Rules(maximum_length_extra=POSITIONS)
        found = search(rules=rules).search(generator, batch, prefix=begin, end=2, padding=3)
        for prompt, [best, *_] in zip(prompts, found, strict=True):
            given = torch.cat([prompt, torch.tensor([7])])[None]
            how = {"max_length": POSITIONS, "do_sample": False, "attention_mask": torch.ones_like(given)}
            wanted = theirs.generate(given, **how)[0, len(prompt) + 1 :].tolist()
            assert len(best.tokens) <= POSITIONS - len(prompt)  # the end symbol is not read
            if search is GreedySearch:
                assert best.tokens[: len(wanted)] == wanted and best.cut == (2 not in wanted)
    assert any(len(best.tokens) == POSITIONS - length for length, [best, *_] in zip(lengths, found, strict=True))


def test_what_finds_no_room_in_the_positions_is_named(bounded):
    _, model = bounded
    batch, _ = batch_of(5, POSITIONS - 1)
    refuses(DataError, "row 'row 1': its 'source' is too long.* 61 tokens of .* has 60 positions", model.encode, batch)
    batch, _ = batch_of(POSITIONS - 9, 5)
    fits, outputs = (Padded.from_sequences([torch.full((n,), 7), torch.tensor([7])]) for n in (9, 10))
    assert model.log_probabilities(fits, model.encode(batch)).shape == (2, 9, 400)
    refuses(TooLongError, "61 tokens of .* has 60 positions", model.log_probabilities, outputs, model.encode(batch))


@torch.no_grad()
def test_any_of_several_symbols_ends_an_output(imported):
    _, _, system = imported
    model = system.model
    rows = [{"id": "1", "source_text": "a dog", "source_language": "en", "target_language": "de"}]
    batch = collate(rows, system.input_fields, np.random.default_rng(1))
    tokens = torch.tensor([5])
    one, _ = model.step(tokens, model.start(model.encode(batch), None))
    model.ends = [2, 0]
    both, _ = model.step(tokens, model.start(model.encode(batch), None))
    model.ends = [2]
    assert both[0, 2].exp() == pytest.approx(float(one[0, 2].exp() + one[0, 0].exp()), rel=1e-4)
    assert both[0, 0] == float("-inf") and torch.equal(both[0, 3:], one[0, 3:])


def test_given_outputs_are_scored_as_the_library_scores_them(imported):
    tokenizer, theirs, system = imported
    common = {"source_language": "en", "target_language": "de"}
    outputs = ["ein Hund", "yes", "the cat sat on the mat", "Guten Morgen"]
    pairs = zip(SENTENCES, outputs, strict=True)
    rows = [
        common | {"id": str(n), "source_text": text, "target_text": output} for n, (text, output) in enumerate(pairs)
    ]
    found = score_rows(system, rows, budget=Budget(rows=4), autocast=system.autocast)
    for number, total, tokens in found:
        start = asked(tokenizer, SENTENCES[number])["input_ids"][0].tolist()
        given = [*tokenizer(outputs[number], add_special_tokens=False)["input_ids"], 2]
        assert tokens == len(given) and total / tokens == pytest.approx(mean(theirs, start, given), rel=1e-4)


def test_the_folder_holds_no_weight_twice_and_no_code(imported, tmp_path):
    _, theirs, system = imported
    system.save(tmp_path / "again")
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert "auto_map" not in json.dumps(config)
    tied = theirs.config.tie_word_embeddings
    assert ("model.lm.lm_head.weight" in system.state_dict()) == (not tied)
    options = {"target_language": "de", "beam": 1}
    assert System.load(tmp_path / "again").translate("a dog", **options) == system.translate("a dog", **options)


def test_bad_folders_are_named(tmp_path):
    languages = {"source_languages": ["en"], "target_languages": ["de"], "engine": "transformers"}

    def refused(match, error=UsageError, prompt=None, change=None, **options):
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        written(folder, "qwen3", **options)
        if change:
            config = json.loads((folder / "config.json").read_text()) | change
            (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
        refuses(error, match, import_model, folder, tmp_path / "out", prompt=prompt, **languages)
        return folder

    refused("auto_map is refused: no code of a model is run", change={"auto_map": {"AutoModel": "evil.Model"}})
    refused("quantization_config is refused", change={"quantization_config": {"quant_method": "fp8"}})
    refused("--prompt must have the place of the text", prompt="Translate this.")
    refused("the chat template fails", error=DataError, template="{{ messages[9].content.strip() }}")
    refused("the chat template shows the prompt 0 times", error=DataError, template="<|im_start|>")
    refused(
        "model_type 'qwen99' is not read through transformers, only", error=DataError, change={"model_type": "qwen99"}
    )
    folder = written(tmp_path / "bare", "qwen3")
    refuses(
        UsageError,
        "give --source-languages",
        import_model,
        folder,
        tmp_path / "out",
        engine="transformers",
    )
    (folder / "model.safetensors").unlink()
    refuses(DataError, "no weights in the format safetensors", import_model, folder, tmp_path / "out", **languages)
