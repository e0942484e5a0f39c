"""Exported folders, loaded by transformers: the same ids, logits and translations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman import BeamSearch, Rules, System
from dragoman.cli.main import app
from dragoman.exchange.ctranslate2 import CTranslate2System
from dragoman.exchange.ctranslate2 import export as export_ctranslate2
from dragoman.exchange.huggingface.hf_export import export
from dragoman.exchange.importing import import_model
from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import collate
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import OutputProjection, TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions, SinusoidalPositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import Translator
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests.parity import test_import
from tests.parity import tokenizers_of_others as others
from tests.parity.lines import ODD

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

WIDTH = 18
FAIRSEQ = {"positions": lambda: SinusoidalPositions(width=WIDTH)}
LEARNED = {"positions": lambda: LearnedPositions(width=WIDTH, length=300, offset=2), "norm": True}
MARIAN = {"positions": lambda: SinusoidalPositions(width=WIDTH, offset=0, endpoint=False)}
#: What a system has, and the class that loads it.
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "recipe": ({"pre_norm": True, "embedding": FAIRSEQ}, "M2M100"),
    "recipe_untied": ({"pre_norm": True, "embedding": FAIRSEQ, "tied": False, "activation": "gelu_tanh"}, "M2M100"),
    "post_norm": ({"pre_norm": False, "embedding": FAIRSEQ}, "FSMT"),
    "learned_pre_norm": ({"pre_norm": True, "embedding": LEARNED, "activation": "gelu", "bias": True}, "MBart"),
    "learned_post_norm": ({"pre_norm": False, "embedding": LEARNED}, "Bart"),
    "from_zero": ({"pre_norm": False, "embedding": MARIAN, "activation": "swish", "bias": True}, "Marian"),
}


@pytest.fixture(scope="module")
def models(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pieces")
    kinds = {"unigram": "nfc", "bpe": "nfc", "char": "nfc", "unigram nmt_nfkc": "nmt_nfkc"}
    options = {name: {"kind": name.split()[0], "normalisation": rule} for name, rule in kinds.items()}
    return {
        name: str(train_sentencepiece(lines[:-20], folder / f"{name}.model", size=600, **own))
        for name, own in options.items()
    }


def translator(tokenizer: Any, *, pre_norm: bool, embedding: dict[str, Any], tied: bool = True, bias: bool = False,
               activation: str = "relu") -> Translator:  # fmt: skip
    torch.manual_seed(6)
    options = {name: value for name, value in embedding.items() if name != "positions"}
    options |= {"vocabulary": tokenizer.size, "width": WIDTH, "padding": tokenizer.pad}
    source = TextEmbedding(positions=embedding["positions"](), **options)
    target = TextEmbedding(positions=embedding["positions"](), shared_with=source if tied else None, **options)
    layer = {"width": WIDTH, "feedforward": 22, "activation": activation, "pre_norm": pre_norm}
    model = Translator(
        embeddings={"source": source},
        encoder=Encoder(layer=Layer(heads=3, **layer), layers=2),
        target_embedding=target,
        decoder=Decoder(layer=Layer(heads=2, memories=["source"], **layer), layers=1),
        projection=TiedProjection(embedding=target, bias=bias)
        if tied
        else OutputProjection(width=WIDTH, vocabulary=tokenizer.size, bias=bias),
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def system_of(tokenizer: Any, languages: tuple[list[str], list[str]] = (["en"], ["de"]), **case: Any) -> System:
    return System(
        model=translator(tokenizer, **case),
        inputs={"source": TextField(column="source_text", tokenizer=tokenizer)},
        output=TextField(tokenizer=tokenizer),
        source_languages=languages[0],
        target_languages=languages[1],
    )


@pytest.mark.parametrize(
    ("name", "pieces"),
    [*((name, "unigram") for name in CASES), *(("recipe", pieces) for pieces in ("bpe", "char", "unigram nmt_nfkc"))],
)
def test_exported_systems(name: str, pieces: str, lines: list[str], models: dict[str, str], tmp_path: Path) -> None:
    case, kind = CASES[name]
    system = system_of(SentencePieceTokenizer(model=models[pieces], tags=["en", "de"]), **case)
    system.save(tmp_path / "ours")
    notes = export(tmp_path / "ours", tmp_path / "theirs")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "theirs").eval()
    assert type(theirs).__name__.startswith(kind) and notes[0].startswith(type(theirs).__name__)
    assert len(notes) == 1
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    ours = system.output.tokenizer
    order = tokenizer.convert_tokens_to_ids([ours.symbol(id) for id in range(ours.size)])  # theirs by ours
    assert sorted(order) == list(range(ours.size)) == list(range(len(tokenizer)))
    rows = [{"source_text": line, "source_language": "en", "target_language": "de", "id": ""} for line in lines]
    found = [[order[id] for id in system.inputs["source"](row, None).tolist()] for row in rows]
    different = [text for text, ids in zip(lines, found, strict=True) if ids != tokenizer(text).input_ids]
    assert not {*different} - {*ODD}
    assert len(different) <= 4 * ("nmt_nfkc" in pieces)  # whose tables tokenizers and SentencePiece read differently
    chosen = [line for line in lines[:-20:70] if line.strip()]
    inputs = tokenizer(chosen, return_tensors="pt", padding=True)
    batch = collate([row for row in rows if row["source_text"] in chosen][: len(chosen)], system.inputs, None)
    generator = torch.Generator().manual_seed(2)
    prefix = torch.randint(ours.size, (len(chosen), 6), generator=generator)
    prefix[prefix == ours.pad] = 7
    lengths = torch.full((len(chosen),), 6)
    with torch.no_grad():
        encoding = system.model.encode(Batch({"source": batch["source"]}))
        logits = system.model.project(system.model.decode(type(batch["source"])(prefix, lengths), encoding))
        expected = theirs(**inputs, decoder_input_ids=torch.tensor(order)[prefix], use_cache=False).logits
    torch.testing.assert_close(logits, expected[..., torch.tensor(order)], atol=1e-4, rtol=1e-4)
    generated = theirs.generate(**inputs, max_length=20)
    search = BeamSearch(rules=Rules(maximum_length=18, minimum_length=0, forced_free=True))
    for tokens, found in zip(generated.tolist(), system.hypotheses(chosen, search=search), strict=True):
        wanted = [order[token] for token in found[0].tokens]
        assert tokens[1 : 1 + len(wanted)] == wanted
    for line in chosen:  # what is not bytes out of a random model
        assert tokenizer.decode(tokenizer(line).input_ids, skip_special_tokens=True) == ours.decode(ours.encode(line))


def test_several_languages_are_said(lines: list[str], models: dict[str, str], tmp_path: Path) -> None:
    tokenizer = SentencePieceTokenizer(model=models["unigram"], tags=["en", "de", "fr"])
    system = system_of(tokenizer, (["en", "fr"], ["de", "fr"]), **CASES["recipe"][0])
    system.save(tmp_path / "ours")
    notes = export(tmp_path / "ours", tmp_path / "theirs")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    number = theirs.convert_tokens_to_ids("<de>")
    told = f"decoder_start_token_id= de {number}, fr {number + 1}"
    first = "each source has to begin with the symbol of its language: <en> and the text"
    assert notes[1:] == [first, f"generate() needs the output's language: {told}"]
    row = {"source_text": lines[3], "source_language": "fr", "target_language": "de", "id": ""}
    ours = system.inputs["source"](row, None).tolist()
    symbols = [system.output.tokenizer.symbol(id) for id in ours]
    assert theirs.convert_ids_to_tokens(theirs("<fr>" + lines[3]).input_ids) == symbols


@pytest.mark.parametrize("name", ["mbart50", "marian"])
def test_what_was_imported_goes_back(name: str, lines: list[str], tmp_path: Path) -> None:
    kind, model_kind, _ = test_import.CASES[name]
    folder = tmp_path / "theirs"
    folder.mkdir()
    model = others.train(lines, tmp_path / "sentencepiece.bpe.model", "unigram")
    tokenizer = test_import.tokenizer_for(kind, lines, model, folder)
    more: dict[str, Any] = {}
    if kind == "Marian":
        padding = tokenizer.pad_token_id
        more = {"pad_token_id": padding, "decoder_start_token_id": padding, "eos_token_id": 0}
        (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en"}), encoding="utf-8")
    theirs = test_import.random_model(model_kind, folder, vocab_size=len(tokenizer), **more)
    import_model(folder, tmp_path / "ours", source_languages=["de"])
    export(tmp_path / "ours", tmp_path / "back")
    back = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "back").eval()
    assert type(back) is type(theirs)
    for key, value in theirs.state_dict().items():
        if kind == "Marian" and "embed_positions" in key:  # sines, of which there are as many as one likes
            continue
        torch.testing.assert_close(back.state_dict()[key], value, atol=0, rtol=0)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    if kind == "MBart50":
        tokenizer.src_lang = "de_DE"
        assert isinstance(System.load(tmp_path / "ours").output.tokenizer, JsonTokenizer)
    for line in [line for line in lines if not line.startswith(">>")]:
        assert again(line).input_ids == tokenizer(line).input_ids


def marian(folder: Path, lines: list[str], separate: bool) -> tuple[Any, Any]:
    """Save a random Marian with pieces of its own for either side, in one vocabulary or two."""
    folder.mkdir()
    texts = {"source.spm": lines[::2], "target.spm": lines[1::2]}
    models = [others.train(text, folder / name, "unigram") for name, text in texts.items()]
    sides = [SentencePieces(model=model).pieces() for model in models]
    both = [*dict.fromkeys([*sides[0], *sides[1]])]
    rows = [["</s>", "<unk>", "<pad>", *pieces] for pieces in (sides if separate else [both, both])]
    for name, symbols in zip(("vocab.json", "target_vocab.json"), rows, strict=True):
        (folder / name).write_text(json.dumps({row: number for number, row in enumerate(symbols)}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": separate}), encoding="utf-8")
    paths = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json", "target_vocab.json")]
    theirs = test_import.random_model(
        "Marian",
        folder,
        vocab_size=len(rows[0]),
        decoder_vocab_size=len(rows[1]),
        share_encoder_decoder_embeddings=not separate,
        pad_token_id=2,
        decoder_start_token_id=2,
        eos_token_id=0,
        init_std=1.2,
    )
    theirs.final_logits_bias[0, 0] = 11.0  # outputs end before they are cut
    theirs.save_pretrained(folder)
    return theirs, transformers.MarianTokenizer(*paths, separate_vocabs=separate)


@pytest.mark.parametrize("separate", [False, True])
def test_an_imported_marian_in_ctranslate2(
    separate: bool, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2")
    theirs, tokenizer = marian(tmp_path / "theirs", lines, separate)
    import_model(tmp_path / "theirs", tmp_path / "ours", source_languages=["en"], target_languages=["de"])
    chosen = [line for line in lines[:-20:9] if line.strip()]
    inputs = tokenizer(chosen, return_tensors="pt", padding=True)
    options = {"num_beams": 5, "early_stopping": True, "max_length": 62}
    generated = theirs.generate(**inputs, **options, suppress_tokens=[theirs.config.pad_token_id])
    ended = [row for row, tokens in enumerate(generated.tolist()) if tokens.index(0) < 61]  # at the limit, rules differ
    expected = tokenizer.batch_decode(generated[ended], skip_special_tokens=True)
    assert len(ended) > 50 and len({*expected}) > 40
    export_ctranslate2(tmp_path / "ours", tmp_path / "exported")
    search = BeamSearch(rules=Rules(maximum_length=60, minimum_length=0, forced_free=True))
    found = CTranslate2System.open(tmp_path / "exported").hypotheses(chosen, search=search)
    assert [found[row][0].texts["translation"] for row in ended] == expected
    (tmp_path / "text").write_text("\n".join(chosen) + "\n", encoding="utf-8")
    options = ["--engine", "ctranslate2", "--minimum-length", "0", "--maximum-length-ratio", "0"]
    options += ["--maximum-length-extra", "60"]
    app(["translate", str(tmp_path / "ours"), str(tmp_path / "text"), *options], standalone_mode=False)
    printed = capsys.readouterr().out.splitlines()
    assert [printed[row] for row in ended] == expected
