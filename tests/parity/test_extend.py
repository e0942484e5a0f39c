"""Translators of transformers with a language more: imported, extended, exported, and imported again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from dragoman import System
from dragoman.exchange.extending import extend
from dragoman.exchange.huggingface.hf_export import export
from dragoman.exchange.importing import import_model
from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from tests.dragoman.exchange.test_extending import check_logits
from tests.parity.compared import Compared

transformers = pytest.importorskip("transformers")

from tests.parity import test_import  # noqa: E402
from tests.parity import tokenizers_of_others as others  # noqa: E402
from tests.parity.test_reimport import written, written_there  # noqa: E402

pytestmark = pytest.mark.parity

#: The kind of tokenizer, that of the model, and which pieces the folder has.
CASES = {
    "m2m": ("M2M100", "unigram"),
    "m2m_bpe": ("M2M100", "bpe"),
    "nllb": ("M2M100", "unigram"),
    "mbart50": ("MBart", "unigram"),
    "mbart_cc25": ("MBart", "unigram"),
}


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    """Make 300 sentences of words that share parts, half of them in letters that no model here knows."""
    draw = random.Random(8)
    parts = ["wela", "lin", "mi", "ji", "si", "telu", "ᎣᏏᏲ", "ᏙᎯ", "Ꮷ", "ᎠᏂ"]
    words = ["".join(draw.choices(parts, k=draw.randint(1, 3))) for _ in range(60)]
    return [" ".join(draw.choices(words, k=draw.randint(2, 6))) + "." for _ in range(300)]


def made(name: str, lines: list[str], folder: Path) -> None:
    """Write a folder of transformers with random weights."""
    model_kind, pieces = CASES[name]
    kind = test_import.CASES[name.removesuffix("_bpe")][0]
    folder.mkdir()
    model = others.train(lines, folder / "sentencepiece.bpe.model", pieces)
    tokenizer = test_import.tokenizer_for(kind, lines, model, folder)
    more = {"M2M100": 100 + 8, "Nllb": 2}  # languages, and rows that nothing has
    test_import.random_model(model_kind, folder, vocab_size=len(tokenizer) + more.get(kind, 0))


def row(text: str, source: str) -> dict[str, str]:
    return {"id": "", "source_text": text, "source_language": source, "target_text": text, "target_language": "fr"}


def trained(folder: Path) -> System:
    """Disturb what is in a folder, as training does: vectors that began as the same make ties in searches."""
    system = System.load(folder)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    system.save(folder)
    return system


def logits(system: System, source: list[int], target: list[int]) -> torch.Tensor:
    tokens = [Padded.from_sequences([torch.tensor(ids)], padding=1) for ids in (source, target)]
    with torch.no_grad():
        encoding = system.model.encode(Batch({"source": tokens[0]}))
        return system.model.project(system.model.decode(tokens[1], encoding))


@pytest.mark.parametrize("name", CASES)
def test_a_language_more(name: str, lines: list[str], sentences: list[str], tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", f"{name.replace('_', ' ')} with a language more (dragoman extend)")
    made(name, lines, tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours", source_languages=["de"], target_languages=["fr"])
    (tmp_path / "mic.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    given = {"language": "mic", "like": "de", "text": tmp_path / "mic.txt", "pieces": 120}
    report = extend(tmp_path / "ours", tmp_path / "more", **given)
    old, new = System.load(tmp_path / "ours"), System.load(tmp_path / "more")
    assert (new.source_languages, new.target_languages) == (["de", "mic"], ["fr"])
    assert report.unknown[0] > 400 and report.unknown[1] == 0 and report.ids[1] < report.ids[0] / 2
    for number, line in enumerate([*lines, *sentences]):
        ids = [old.inputs["source"](row(line, "de"), None).tolist(), old.output(row(line, "de"), None).tolist()]
        assert ids == [new.inputs["source"](row(line, "de"), None).tolist(), new.output(row(line, "de"), None).tolist()]
        if number % 100 == 0:
            before = logits(old, *ids)
            check_logits(logits(new, *ids), before)

    new = trained(tmp_path / "more")
    notes = export(tmp_path / "more", tmp_path / "exported")
    assert notes[1] == "texts in mic have the tokenizer in mic/"
    report_of_import = import_model(tmp_path / "exported", tmp_path / "back")
    assert not (report_of_import.missing or report_of_import.unexpected or report_of_import.reshaped)
    back = System.load(tmp_path / "back")
    assert (back.source_languages, back.target_languages) == (["de", "mic"], ["fr"])
    start = new.output.prefix_ids("fr")
    options = {"decoder_start_token_id": start[0]} | ({"forced_bos_token_id": start[1]} if len(start) > 1 else {})
    for texts, code, place in (
        ([line for line in lines[:-20:90] if line.strip()], "de", ""),
        (sentences[:20], "mic", "mic"),
    ):
        found = written(new, texts, code, "fr")
        assert len({*map(tuple, found)}) > 1
        compared.same("texts, imported again", written(back, texts, code, "fr"), found)
        compared.same("texts", found, written_there(tmp_path / "exported", texts, place, reads="mic", **options))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported" / "mic")
    for sentence in sentences:
        ids = theirs(sentence).input_ids
        compared.same("ids", [new.inputs["source"](row(sentence, "mic"), None).tolist()], [ids])
        assert theirs.decode(ids, skip_special_tokens=True) == sentence


def test_several_old_languages_and_another_new_one(lines: list[str], sentences: list[str], tmp_path: Path) -> None:
    """NLLB reads and writes many: each text begins with its symbol, those of a new language have it from their file."""
    made("nllb", lines, tmp_path / "theirs")
    codes = {"source_languages": ["de", "fr"], "target_languages": ["de", "fr"]}
    import_model(tmp_path / "theirs", tmp_path / "ours", **codes)
    (tmp_path / "mic.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    (tmp_path / "chr.txt").write_text("\n".join(sentences).replace("Ꮷ", "ლო") + "\n", encoding="utf-8")
    for number, (code, like) in enumerate((("mic", "fr"), ("chr", "mic"))):
        given = {"language": code, "like": like, "text": tmp_path / f"{code}.txt", "pieces": 120}
        extend(tmp_path / ("ours", "mic")[number], tmp_path / code, **given)
    new = trained(tmp_path / "chr")
    notes = export(tmp_path / "chr", tmp_path / "exported")
    tokenizer = new.output.tokenizer
    numbers = ", ".join(f"{code} {tokenizer.id(f'<{code}>')}" for code in ("mic", "chr", "de", "fr"))
    assert notes[-1] == f"generate() needs the output's language: forced_bos_token_id= {numbers}"
    import_model(tmp_path / "exported", tmp_path / "back")
    back = System.load(tmp_path / "back")
    assert back.source_languages == back.target_languages == ["de", "fr", "mic", "chr"]
    texts = {"de": lines[3:300:90], "mic": sentences[:4], "chr": [line.replace("Ꮷ", "ლო") for line in sentences[:4]]}
    for source, some in texts.items():
        typed = [f"deu_Latn{line}" for line in some] if source == "de" else some
        for target in ("fr", "mic", "chr"):
            found = written(new, some, source, target)
            assert found == written(back, some, source, target)
            ids = {"decoder_start_token_id": 2, "forced_bos_token_id": tokenizer.id(f"<{target}>")}
            folder = source.removeprefix("de")
            # The last tokenizer has all names; which one divides a text is another matter.
            assert found == written_there(tmp_path / "exported", typed, folder, reads="chr", **ids)
