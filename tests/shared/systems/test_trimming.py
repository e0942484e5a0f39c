"""Trimmed models translate covered text as before, and have fewer rows."""

import json
from pathlib import Path

import pytest
import torch

from shared.batch import Batch
from shared.corpus.manifest import Manifest
from shared.errors import DataError, UsageError
from shared.exchange.fairseq import import_fairseq
from shared.padded import Padded
from shared.search import BeamSearch, GreedySearch
from shared.systems.system import System
from shared.systems.trimming import TrimmedTokenizer, trim

FIXTURES = Path(__file__).parents[2] / "parity" / "fairseq"
GOLDEN = Path(__file__).parents[2] / "golden"


def manifest(path: Path, pairs: list[tuple[str, str]]) -> str:
    languages = {"source_language": "en", "target_language": "de"}
    rows = [{"id": str(i), "source_text": s, "target_text": t} | languages for i, (s, t) in enumerate(pairs)]
    return str(Manifest.write(path, rows).path)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Return a model that fairseq trained, sentences, and a manifest with 60 like them and what becomes of them."""
    folder = tmp_path_factory.mktemp("original")
    system, _ = import_fairseq(FIXTURES / "trained", source_languages=["en"], target_languages=["de"])
    system.save(folder / "model")
    known = json.loads((FIXTURES / "trained" / "generated.json").read_text(encoding="utf-8"))[:60]
    pairs = [
        (one["source"], h["pieces"].replace(" ", "").replace("\u2581", " ")) for one in known for h in one["hypotheses"]
    ]
    return folder / "model", [one["source"] for one in known[:6]], manifest(folder / "covering.arrow", pairs)


def test_covered_text_is_translated_as_before(original, tmp_path):
    model, texts, covering = original
    report = trim(model, [covering], tmp_path / "trimmed")
    ((old, new),) = report.sizes
    assert new < old and report.bytes[1] < report.bytes[0]
    assert report.parameters[0] - report.parameters[1] == 48 * (old - new)  # one matrix, 48 wide, for all three uses
    trimmed, whole = System.load(tmp_path / "trimmed"), System.load(model)
    assert trimmed.origin == [*whole.origin, f"trimmed to {new} symbols"]
    for search in (GreedySearch(), BeamSearch(beam=3)):
        before, after = (system.hypotheses(texts, search=search) for system in (whole, trimmed))
        assert [h[0].texts for h in after] == [h[0].texts for h in before]
    small, large = trimmed.output.tokenizer, whole.output.tokenizer
    assert small.symbols == large.symbols
    for text in texts:
        ids = small.encode(text)
        assert [small.symbol(id) for id in ids] == [large.symbol(id) for id in large.encode(text)]
        assert (small.decode(ids), small.lengths([text]).tolist()) == (text, [len(ids)])


def test_logits_of_what_is_kept_do_not_change(original, tmp_path):
    model, texts, covering = original
    trim(model, [covering], tmp_path / "trimmed")
    systems = System.load(model), System.load(tmp_path / "trimmed")
    logits = []
    for system in systems:
        ids = torch.tensor([system.output.tokenizer.encode(texts[0])])
        tokens = Padded(ids, torch.tensor([ids.shape[1]]))
        with torch.no_grad():
            logits.append(
                system.model.project(system.model.decode(tokens, system.model.encode(Batch({"source": tokens}))))
            )
    kept = systems[1].output.tokenizer.kept
    torch.testing.assert_close(logits[1], logits[0][..., kept])


def test_what_is_trimmed_again_has_one_list(original, tmp_path):
    model, texts, covering = original
    trim(model, [covering], tmp_path / "one")
    fewer = manifest(tmp_path / "fewer.arrow", [(texts[0], texts[1])])
    (first, second) = trim(tmp_path / "one", [fewer], tmp_path / "two").sizes[0]
    assert second < first
    trim(model, [fewer], tmp_path / "at once")
    twice, once = (System.load(tmp_path / name) for name in ("two", "at once"))
    assert twice.output.tokenizer.kept == once.output.tokenizer.kept
    assert not isinstance(twice.output.tokenizer.tokenizer, TrimmedTokenizer)
    for (name, one), (_, other) in zip(twice.state_dict().items(), once.state_dict().items(), strict=True):
        assert torch.equal(one, other), name


def test_what_was_not_kept_is_unknown(original, tmp_path):
    model, texts, _ = original
    trim(model, [manifest(tmp_path / "a.arrow", [("a", "a")])], tmp_path / "trimmed")
    tokenizer = System.load(tmp_path / "trimmed").output.tokenizer
    assert tokenizer.unk in tokenizer.encode(texts[0])
    assert tokenizer.encode("a") == [tokenizer.size - 1] and tokenizer.size == 5
    assert (tokenizer.bos, tokenizer.pad, tokenizer.eos, tokenizer.unk) == (0, 1, 2, 3)
    with pytest.raises(DataError, match="no symbol '<mask>'"):
        _ = tokenizer.mask
    with pytest.raises(ValueError, match="id 5 is outside the vocabulary of 5"):
        tokenizer.symbol(5)


def test_a_system_of_ours_keeps_its_bytes_and_its_heads(tmp_path):
    asked = json.loads((GOLDEN / "translations.json").read_text(encoding="utf-8"))["translations"]
    pairs = [(one["source"], h["text"]) for one in asked for h in one["hypotheses"]]
    whole = System.load(GOLDEN / "model")
    trim(GOLDEN / "model", [manifest(tmp_path / "a.arrow", pairs[:3])], tmp_path / "trimmed")
    trimmed = System.load(tmp_path / "trimmed")
    small, large = trimmed.output.tokenizer, whole.output.tokenizer
    assert sum(small.symbol(id).startswith("<0x") for id in range(small.size)) == 256
    head, old = trimmed.model.heads["ctc"], whole.model.heads["ctc"]
    assert head.blank == small.blank == head.vocabulary - small.size + small.blank
    assert torch.equal(head.projection.bias[small.blank], old.projection.bias[large.blank])
    assert trimmed.translate(asked[0]["source"]) == whole.translate(asked[0]["source"])


def test_what_cannot_be_trimmed_is_said(original, tmp_path):
    model, _, covering = original
    with pytest.raises(UsageError, match="give another place"):
        trim(model, [covering], model)
    empty = manifest(tmp_path / "empty.arrow", [])
    with pytest.raises(DataError, match="no text in source_text, target_text"):
        trim(model, [empty], tmp_path / "trimmed")
    assert not (tmp_path / "trimmed").exists()


@pytest.mark.parametrize(
    "content", ["[]", "[1, 0]", "[0, 0]", "[-1]", "[0, 99999]", "{}", "[0, true]", "nothing", "[5]"]
)
def test_lists_that_are_none_are_refused(content, tmp_path):
    (tmp_path / "kept.json").write_text(content)
    tokenizer = System.from_description(GOLDEN / "model").output.tokenizer
    with pytest.raises(DataError, match=r"kept\.json: "):
        TrimmedTokenizer(tokenizer=tokenizer, kept=str(tmp_path / "kept.json"))
