"""Whole folders of transformers through ``dragoman import``: the same texts and symbols in, the same texts out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman import BeamSearch, DataError, Rules, System, UsageError
from dragoman.exchange.importing import import_model
from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.exchange.vocabularies.vocabulary import FIRST
from dragoman.shared.batch import Batch
from dragoman.shared.batches.loader import collate
from tests.parity import tokenizers_of_others as others
from tests.parity.compared import Compared
from tests.small import refuses

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

SIZES = {
    "d_model": 18, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 3, "decoder_attention_heads": 3,
    "encoder_ffn_dim": 22, "decoder_ffn_dim": 22, "max_position_embeddings": 512, "init_std": 0.3,
}  # fmt: skip
LIMIT = 14


@pytest.fixture(scope="module")
def pieces(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    return others.train(lines, tmp_path_factory.mktemp("pieces") / "sentencepiece.bpe.model", "unigram")


def random_model(kind: str, folder: Path, **settings: Any) -> Any:
    torch.manual_seed(4)
    config = getattr(transformers, f"{kind}Config")(**SIZES | settings)
    suffix = "MTModel" if kind == "Marian" else "ForConditionalGeneration"
    model = getattr(transformers, f"{kind}{suffix}")(config).eval()
    model.save_pretrained(folder)
    return model


def tokenizer_for(name: str, lines: list[str], pieces: str, folder: Path) -> Any:
    """Save a tokenizer of transformers, and return it as it is read from there."""
    if name == "M2M100":
        numbers = {piece: number for number, piece in enumerate([*FIRST, *SentencePieces(model=pieces).pieces()])}
        (folder / "vocab.json").write_text(json.dumps(numbers), encoding="utf-8")
        made = transformers.M2M100Tokenizer(folder / "vocab.json", pieces, src_lang="de", tgt_lang="fr")
    elif name == "Marian":
        rows = ["</s>", "<unk>", ">>fra<<", ">>deu<<", *SentencePieces(model=pieces).pieces(), "<pad>"]
        (folder / "vocab.json").write_text(json.dumps({row: n for n, row in enumerate(rows)}), encoding="utf-8")
        for spm in ("source.spm", "target.spm"):
            shutil.copy(pieces, folder / spm)
        return transformers.MarianTokenizer(*(str(folder / f) for f in ("source.spm", "target.spm", "vocab.json")))
    elif name == "Bart":
        vocabulary = others.roberta(lines, pieces)[0]
        vocabulary.save_pretrained(folder)
        return vocabulary
    else:
        made = {"MBart": others.mbart, "MBart50": others.mbart50, "Nllb": others.nllb}[name](lines, pieces)[0]
    made.save_pretrained(folder)
    return made


# tokenizer, model, settings, codes of the target language there, what starts and is forced
CASES: dict[str, tuple[str, str, str]] = {
    "mbart50": ("MBart50", "MBart", "fr_XX"),
    "mbart_cc25": ("MBart", "MBart", "fr_XX"),
    "m2m": ("M2M100", "M2M100", "__fr__"),
    "nllb": ("Nllb", "M2M100", "fra_Latn"),
    "marian": ("Marian", "Marian", ">>fra<<"),
    "bart": ("Bart", "Bart", "<s>"),
}


@pytest.mark.parametrize("name", CASES)
def test_translators(name: str, lines: list[str], pieces: str, tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", f"{name.replace('_', ' ')}: a whole folder, from text to text")
    kind, model_kind, tag = CASES[name]
    folder, out = tmp_path / "theirs", tmp_path / "ours"
    folder.mkdir()
    tokenizer = tokenizer_for(kind, lines, pieces, folder)
    more = {"M2M100": 100 + 8, "Nllb": 2}  # languages, and rows that nothing has
    settings: dict[str, Any] = {"vocab_size": len(tokenizer) + more.get(kind, 0)}
    if kind == "Marian":
        padding = tokenizer.pad_token_id
        settings |= {"pad_token_id": padding, "decoder_start_token_id": padding, "eos_token_id": 0}
    theirs = random_model(model_kind, folder, **settings)
    options = {"source_languages": ["de"]} if kind in ("Marian", "Bart") else {}
    options |= {"target_languages": ["fr"]} if kind == "Bart" else {}
    report = import_model(folder, out, **options)
    assert not (report.missing or report.unexpected or report.reshaped)
    system = System.load(out)
    assert system.origin[0].startswith("imported from theirs (transformers, ")
    assert {"fr"} <= {*system.target_languages} and {"de"} <= {*system.source_languages}
    chosen = [line for line in lines[::50] if line.strip()]
    typed = [f">>fra<<{line}" for line in chosen] if kind == "Marian" else chosen
    inputs = tokenizer(typed, return_tensors="pt", padding=True)
    row = {"source_language": "de", "target_language": "fr", "id": "1"}
    batch = collate([row | {"source_text": line} for line in chosen], system.inputs, None)
    compared.same("symbols", [ids.tolist() for ids in batch["source"].rows()], tokenizer(typed).input_ids)
    starts = {"MBart": [tag], "Marian": [tokenizer.pad_token]}.get(kind, [tokenizer.eos_token, tag])
    ids = tokenizer.convert_tokens_to_ids(starts)
    assert system.output.prefix_ids("fr") == ids
    expected = theirs.generate(
        **inputs, num_beams=5, early_stopping=True, max_length=LIMIT, decoder_start_token_id=ids[0],
        forced_bos_token_id=ids[1] if len(ids) > 1 else None, forced_eos_token_id=tokenizer.eos_token_id,
        suppress_tokens=[tokenizer.pad_token_id],
    )  # fmt: skip
    rules = Rules(maximum_length=LIMIT - 2, minimum_length=0, forced_free=True)
    found = system.hypotheses(chosen, source_language="de", target_language="fr", search=BeamSearch(rules=rules))
    texts = tokenizer.batch_decode(expected, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    if kind == "M2M100":  # to which its own tags are not special
        texts = [text.removeprefix("__fr__").strip() for text in texts]
    compared.same("texts", [hypotheses[0].texts["translation"] for hypotheses in found], texts)
    assert any(texts)


@pytest.mark.parametrize("kind", ["MBart50", "MBart", "XLMRoberta", "Nllb"])
def test_older_folders_with_sentencepiece_alone(kind: str, lines: list[str], pieces: str, tmp_path: Path) -> None:
    shutil.copy(pieces, tmp_path / "sentencepiece.bpe.model")
    tags = ["eng_Latn", "deu_Latn"] if kind == "Nllb" else []
    settings = {"tokenizer_class": f"{kind}Tokenizer", "additional_special_tokens": tags}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    library = SentencePieces(model=pieces)
    rows = 4 + len(library.pieces()) + {"MBart50": 52, "MBart": 25, "XLMRoberta": 0, "Nllb": 2}[kind] + 1
    if kind == "XLMRoberta":
        sizes = {"hidden_size": 18, "num_attention_heads": 3, "num_hidden_layers": 1, "intermediate_size": 22}
        config = transformers.XLMRobertaConfig(vocab_size=rows, pad_token_id=1, type_vocab_size=1, **sizes)
        transformers.XLMRobertaForMaskedLM(config).save_pretrained(tmp_path)
    else:
        random_model("M2M100" if kind == "Nllb" else "MBart", tmp_path, vocab_size=rows)
    import_model(tmp_path, tmp_path / "out", source_languages=["de"] if kind == "XLMRoberta" else None)
    tokenizer = System.load(tmp_path / "out").inputs["source"].tokenizer
    if kind != "Nllb":  # transformers reads byte-pair models alone as NLLB's
        theirs = getattr(transformers, f"{kind}Tokenizer").from_pretrained(tmp_path)
        assert tokenizer.size == len(theirs)
        assert tokenizer.mask == theirs.mask_token_id
        # transformers 5 departs from SentencePiece on odd lines (it has another normaliser, or none); we do not.
        for line in lines[:-20:9]:
            assert tokenizer.encode(line) == theirs(line, add_special_tokens=False).input_ids
    if tags or kind != "XLMRoberta":
        assert tokenizer.id("<de>") == len(library.pieces()) + (5 if kind == "Nllb" else 6)


@pytest.mark.parametrize(
    ("body", "kind", "padding"),
    [("Bert", "xlm_roberta", 0), ("Bert", "xlm_roberta", 1), ("Bert", "roberta", 1), ("Roberta", "bert", 2)],
)
@pytest.mark.parametrize("older", [False, True])
def test_encoders_with_the_tokenizer_of_another_model(
    body: str, kind: str, padding: int, older: bool, lines: list[str], pieces: str, tmp_path: Path
) -> None:
    """E5 and MiniLM are BERT above the pieces of XLM-R, with BERT's padding in their settings."""
    if older and kind != "xlm_roberta":
        pytest.skip("test_encoders reads these files")
    tokenizer, _ = getattr(others, kind)(lines, pieces)
    sizes = {"hidden_size": 18, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 22}
    config = getattr(transformers, f"{body}Config")(vocab_size=len(tokenizer) + 3, pad_token_id=padding, **sizes)
    torch.manual_seed(4)
    theirs = getattr(transformers, f"{body}Model")(config).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    if older:
        (tmp_path / "tokenizer.json").unlink()
        shutil.copy(pieces, tmp_path / "sentencepiece.bpe.model")
    import_model(tmp_path, tmp_path / "out", source_languages=["de"])
    system = System.load(tmp_path / "out")
    chosen = [line for line in lines[:-20:40] if line.strip()]
    rows = [{"source_text": line, "source_language": "de", "id": line} for line in chosen]
    batch = collate(rows, system.inputs, None)
    inputs = tokenizer(chosen, return_tensors="pt", padding=True)
    assert [ids.tolist() for ids in batch["source"].rows()] == tokenizer(chosen).input_ids
    assert system.model.embeddings["source"].padding == tokenizer.pad_token_id
    states = system.model.encode(Batch({"source": batch["source"]})).memories["source"]
    expected = theirs(**inputs).last_hidden_state[inputs.attention_mask.bool()]
    torch.testing.assert_close(states.values[states.mask], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_encoders(kind: str, older: bool, lines: list[str], pieces: str, tmp_path: Path) -> None:
    tokenizer, _ = getattr(others, kind)(lines, pieces)
    sizes = {"hidden_size": 18, "num_attention_heads": 3, "num_hidden_layers": 1, "intermediate_size": 22}
    name = {"bert": "Bert", "roberta": "Roberta"}[kind]
    sizes |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    config = getattr(transformers, f"{name}Config")(**sizes)
    theirs = getattr(transformers, f"{name}ForMaskedLM")(config).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    if older:
        content = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["model"]
        (tmp_path / "tokenizer.json").unlink()
        ordered = sorted(content["vocab"], key=content["vocab"].get)
        if kind == "bert":
            (tmp_path / "vocab.txt").write_text("\n".join(ordered) + "\n", encoding="utf-8")
        else:
            (tmp_path / "vocab.json").write_text(json.dumps(content["vocab"]), encoding="utf-8")
            merges = "".join(f"{' '.join(merge)}\n" for merge in content["merges"])
            refuses(
                DataError,
                "has no merges.txt, so there",
                import_model,
                tmp_path,
                tmp_path / "out",
                source_languages=["en"],
            )
            (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
        (tmp_path / "model.safetensors").unlink()
        torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(DataError, match="does not say its source language: name it with --source-languages"):
        import_model(tmp_path, tmp_path / "out")
    import_model(tmp_path, tmp_path / "out", source_languages=["en", "de"])
    system = System.load(tmp_path / "out")
    chosen = [line for line in lines[::40] if line.strip()]
    rows = [{"source_text": line, "source_language": "de", "target_language": "de", "id": line} for line in chosen]
    batch = collate(rows, system.inputs, None)
    inputs = tokenizer(chosen, return_tensors="pt", padding=True)
    assert [ids.tolist() for ids in batch["source"].rows()] == tokenizer(chosen).input_ids
    states = system.model.encode(Batch({"source": batch["source"]})).memories["source"]
    logits = system.model.heads["masked_tokens"](states.values)[states.mask]
    torch.testing.assert_close(logits, theirs(**inputs).logits[inputs.attention_mask.bool()], atol=1e-4, rtol=1e-4)
    with pytest.raises(UsageError, match="no decoder"):
        system.translate("a", source_language="de", target_language="de")
