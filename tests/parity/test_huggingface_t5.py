"""T5, mT5 and MADLAD-400 against transformers' own: distances, states, logits, gradients, outputs, whole folders."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch.nn import functional as F

from dragoman import DataError, GreedySearch, Rules, System
from dragoman.exchange.huggingface.hf_t5 import T5, UNREAD
from dragoman.exchange.importing import import_model
from dragoman.exchange.vocabularies.vocabulary import FIRST
from dragoman.shared.batch import Batch
from dragoman.shared.nn.positions import RelativePositions
from dragoman.shared.padded import Padded
from tests.parity.compared import Compared
from tests.parity.lines import a_thousand_lines
from tests.parity.text_models import batch, disturbed, loaded, same_searches
from tests.parity.tokenizers_of_others import train, unigram

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

SMALL = {
    "vocab_size": 53, "d_model": 18, "d_kv": 5, "d_ff": 22, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10, "dropout_rate": 0.1,
    "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
#: By name in the table: the class, the settings, and whether the output has a matrix of its own.
MODELS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "T5 (1.0)": ("T5", SMALL, False),
    "T5 (1.1)": ("T5", SMALL | GATED | {"d_model": 32, "layer_norm_epsilon": 1e-3}, True),
    "mT5": ("MT5", SMALL | {"feed_forward_proj": "gated-silu"}, True),
    "MADLAD-400": ("T5", SMALL | GATED | {"pad_token_id": 1, "eos_token_id": 2}, True),
}

#: What the vector of the end symbol is multiplied by, so that some outputs end before the limit.
LOUDER = {"T5 (1.0)": 1.6, "T5 (1.1)": 1.0, "mT5": 1.0, "MADLAD-400": 1.0}


def saved(name: str, folder: Path, **settings: Any) -> Any:
    """Build a random model of transformers, untie its output if asked, and save it as it was published."""
    kind, options, untied = MODELS[name]
    options = options | settings
    torch.manual_seed(3)
    config = getattr(transformers, f"{kind}Config")(**options, initializer_factor=2.0)
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    if untied:
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    disturbed(model)
    tensors = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    if name == "T5 (1.0)":  # some files have what no code reads
        tensors[UNREAD] = torch.randn(options["relative_attention_num_buckets"], options["num_heads"])
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"model_type": kind.lower()} | options), encoding="utf-8")
    return model


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "longest"), [(32, 128), (8, 10), (64, 300)])
def test_distances(causal: bool, buckets: int, longest: int) -> None:
    distances = torch.arange(-700, 701)
    attention = transformers.models.t5.modeling_t5.T5Attention
    expected = attention._relative_position_bucket(distances, not causal, buckets, longest)
    positions = RelativePositions(heads=1, buckets=buckets, longest=longest, causal=causal)
    assert torch.equal(positions.bucket(distances), expected)
    assert len(expected.unique()) == (buckets if causal else buckets - 1)  # a distance of -0 is none


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", name)
    theirs = saved(name, tmp_path)
    read, model = loaded(T5, tmp_path)
    padding = theirs.config.pad_token_id
    source, target = batch(53, (7, 1, 25), padding), batch(53, (5, 19, 2), padding)
    given = {"input_ids": source.values, "attention_mask": source.mask.long()}
    expected = theirs(**given, decoder_input_ids=target.values[:, :-1])
    encoding = model.encode(Batch({"source": source}))
    states = encoding.memories["source"].values
    compared.close("states", states[source.mask], expected.encoder_last_hidden_state[source.mask])
    consumed = Padded(target.values[:, :-1], target.lengths - 1)
    logits = model.project(model.decode(consumed, encoding))
    compared.close("logits", logits[consumed.mask], expected.logits[consumed.mask])
    labels = target.values[:, 1:].masked_fill(~consumed.mask, -100)
    for one in (logits, expected.logits):
        F.cross_entropy(one.flatten(0, 1), labels.flatten(), ignore_index=-100).backward()
    gradients = {key: parameter.grad for key, parameter in theirs.named_parameters(remove_duplicate=False)}
    scale = theirs.config.d_model**-0.5 if name == "T5 (1.0)" else 1.0
    seen = 0
    for ours, parameter in model.named_parameters():
        wanted = torch.cat([gradients[part] for part in read.counterparts(ours)])
        own = parameter.grad * scale if ours == "decoder.norm.weight" else parameter.grad
        if ours == "embeddings.source.tokens.weight":  # that of padding learns nothing here
            own, wanted = (x[[row for row in range(53) if row != padding]] for x in (own, wanted))
        size = wanted.abs().max().clamp(min=1)
        compared.close("gradients", own / size, wanted / size, message=ours)
        seen += 1
    assert seen == len(list(model.parameters())) > 20


@pytest.mark.parametrize("name", ["T5 (1.0)", "T5 (1.1)"])
def test_what_transformers_has_read_and_saved_again(name: str, tmp_path: Path) -> None:
    """It then says by another setting whether the output is scaled."""
    saved(name, tmp_path / "published")
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "published").eval()
    theirs.save_pretrained(tmp_path / "again")
    written = json.loads((tmp_path / "again" / "config.json").read_text())
    assert written["tie_word_embeddings"] and written["scale_decoder_outputs"] == (name == "T5 (1.0)")
    source = batch(53, (7, 3), 0)
    expected = theirs(source.values, attention_mask=source.mask.long(), decoder_input_ids=source.values).logits
    for folder in ("published", "again"):
        _, model = loaded(T5, tmp_path / folder)
        found = model.project(model.decode(source, model.encode(Batch({"source": source}))))
        torch.testing.assert_close(found[source.mask], expected[source.mask], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_beam_search(name: str, tmp_path: Path, compared: Compared) -> None:
    """Two hundred sentences; a search goes on step by step, with distances to all that was before."""
    compared.named("transformers", name)
    theirs = saved(name, tmp_path)
    _, model = loaded(T5, tmp_path)
    for one in (theirs.lm_head, model.projection):  # so that some outputs end before the limit
        with torch.no_grad():
            one.weight[theirs.config.eos_token_id] *= LOUDER[name]
    # With a cache, generate fails where the decoder has more layers than the encoder.
    same_searches(model, theirs, [theirs.config.decoder_start_token_id], compared, use_cache=False)


def tokenizer_of(folder: Path, lines: list[str], tags: list[str]) -> Any:
    """Train pieces, and write them as these models have them."""
    pieces = [pair for pair in unigram(train(lines, folder / "pieces.model", "unigram")) if pair[0] not in FIRST]
    special = ["<unk>", "<s>", "</s>"] if tags else ["<pad>", "</s>", "<unk>"]
    first = [(name, 0.0) for name in (*special, *tags)]
    if "▁" not in dict(pieces):
        pieces.append(("▁", -5.0))
    built = Tokenizer(models.Unigram([*first, *pieces], unk_id=special.index("<unk>")))
    built.pre_tokenizer = pre_tokenizers.Metaspace()
    built.decoder = decoders.Metaspace()
    built.add_special_tokens(special)
    built.save(str(folder / "tokenizer.json"))
    options = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": special[0]}
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **options)


def from_text(folder: Path, vocabulary: int, **settings: Any) -> Any:
    return saved("MADLAD-400", folder, vocab_size=vocabulary, **settings).requires_grad_(False)


def test_a_folder_whose_sources_begin_with_the_target_language(tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", "MADLAD-400: a whole folder, from text to text")
    lines = [line for line in a_thousand_lines() if line.strip()]
    folder = tmp_path / "madlad"
    folder.mkdir()
    theirs = tokenizer_of(folder, lines, ["<2de>", "<2fr>", "<2zh_Latn>", "<2zh>", "<2xx>"])
    rows = len(theirs) + 3  # more than the tokenizer has
    model = from_text(folder, rows)
    import_model(str(folder), tmp_path / "ours")
    system = System.load(tmp_path / "ours")
    assert {"de", "fr"} <= {*system.target_languages} and "xx" not in system.target_languages
    field = system.inputs["source"]
    assert field.tokenizer.symbol(field.tokenizer.id("<zh>")) == "<2zh>"
    for line in lines:
        if "<" in line or line != " ".join(line.split()):
            continue  # what a user types is text here, there it may be a symbol
        found = field({"source_text": line, "target_language": "fr"}, None).tolist()
        expected = theirs(f"<2fr> {line}", add_special_tokens=False).input_ids + [2]
        compared.same("symbols", [found], [expected])
    typed = field({"source_text": "a <2de> b", "target_language": "fr"}, None).tolist()
    assert theirs.convert_tokens_to_ids("<2de>") not in typed
    assert "▁" in field.tokenizer.symbols and field.tokenizer.decode(field.tokenizer.encode("a  b")) == "a  b"
    some = [line for line in lines if line.isascii() and "<" not in line and line == " ".join(line.split())][:12]
    inputs = theirs([f"<2de> {line}" for line in some], add_special_tokens=False, padding=True, return_tensors="pt")
    ends = torch.full((len(some), 1), 1)
    ids = torch.cat([inputs.input_ids.masked_fill(inputs.attention_mask == 0, 1), ends], dim=1)
    ids[torch.arange(len(some)), inputs.attention_mask.sum(1)] = 2
    asked = {"num_beams": 1, "do_sample": False, "max_length": 12, "use_cache": False}
    expected = model.generate(ids, attention_mask=(ids != 1).long(), **asked)
    search = GreedySearch(rules=Rules(maximum_length=10, maximum_length_ratio=0, minimum_length=0))
    for line, row in zip(some, expected.tolist(), strict=True):
        [[best]] = [system.hypotheses([line], search=search, source_language="fr", target_language="de")[0][:1]]
        after = row[1 : row.index(2) + 1] if 2 in row else row[1:]
        compared.same("hypotheses", [best.tokens[:10]], [after[:10]])


def test_a_folder_with_a_sentencepiece_model_alone(tmp_path: Path, compared: Compared) -> None:
    """As mT5's: numbers are SentencePiece's own, and a language is not told."""
    compared.named("transformers", "mT5: a whole folder")
    lines = [line for line in a_thousand_lines() if line.strip()]
    folder = tmp_path / "mt5"
    folder.mkdir()
    options = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "vocab_size": 700, "hard_vocab_limit": False}
    pieces = io.BytesIO()
    options |= {"num_threads": 1, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=pieces, **options)
    (folder / "spiece.model").write_bytes(pieces.getvalue())
    library = sentencepiece.SentencePieceProcessor(model_proto=pieces.getvalue())
    saved("mT5", folder, vocab_size=len(library) + 12)
    with pytest.raises(DataError, match="does not say its source language: name it with --source-languages"):
        import_model(str(folder), tmp_path / "ours")
    import_model(str(folder), tmp_path / "ours", source_languages=["en"], target_languages=["de"])
    system = System.load(tmp_path / "ours")
    for line in lines:
        found = system.inputs["source"]({"source_text": line}, None).tolist()
        compared.same("symbols", [found], [[*library.encode(line), 1]])
        if library.unk_id() not in found:  # which is left out here, and a sign there
            assert system.output.tokenizer.decode(found) == library.decode(library.encode(line)).strip()
    assert system.output.arguments["prefix"] == ["<pad>"]


def test_language_symbols_without_a_tokenizer_file_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "madlad"
    folder.mkdir()
    pieces = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(a_thousand_lines()), model_writer=pieces, num_threads=1, minloglevel=2, vocab_size=700,
        hard_vocab_limit=False, user_defined_symbols=["<2de>", "<2fr>"],
    )  # fmt: skip
    (folder / "spiece.model").write_bytes(pieces.getvalue())
    saved("MADLAD-400", folder, vocab_size=720)
    with pytest.raises(DataError, match="has no tokenizer.json, without which <2de> would be text"):
        import_model(str(folder), tmp_path / "ours", source_languages=["en"], target_languages=["de"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"feed_forward_proj": "gated-tanh"}, "feed_forward_proj 'gated-tanh' has no counterpart here"),
        ({"decoder_start_token_id": 99999}, "decoder_start_token_id is 99999, which is none of the tokenizer.s"),
        ({"pad_token_id": 99999}, "its number of <pad> is outside of the tokenizer's"),
        ({"model_type": "umt5"}, "model_type 'umt5' has no counterpart here"),
    ],
)
def test_what_has_no_counterpart_is_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = tmp_path / "madlad"
    folder.mkdir()
    from_text(folder, len(tokenizer_of(folder, a_thousand_lines(), ["<2de>", "<2fr>"])))
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        import_model(str(folder), tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
