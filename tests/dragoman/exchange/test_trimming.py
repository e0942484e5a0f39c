"""Trimmed models translate covered text as before, and have fewer rows."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from dragoman import BeamSearch, CtcGreedySearch, DataError, GreedySearch, Manifest, System, UsageError
from dragoman.exchange.fairseq.fairseq_import import import_fairseq
from dragoman.exchange.trimming import TrimmedTokenizer, trim
from dragoman.shared import described
from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.nn.heads import CtcHead, TiedProjection
from dragoman.shared.nn.translator import Translator
from dragoman.shared.padded import Padded
from dragoman.shared.systems.combining import through_ctc
from dragoman.shared.training.initialise import Initialise
from tests import small
from tests.small import refuses
from tests.test_nouns import WORDS, embedding

FIXTURES = Path(__file__).parents[2] / "parity" / "fairseq"
GOLDEN = Path(__file__).parents[2] / "golden"


def manifest(path: Path, pairs: list[tuple[str, str]]) -> str:
    return str(Manifest.write(path, [small.row(i, *pair) for i, pair in enumerate(pairs)]).path)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Return a model that fairseq trained, sentences, and a manifest with 60 like them and what becomes of them."""
    folder = tmp_path_factory.mktemp("original")
    system, _ = import_fairseq(FIXTURES / "trained", source_languages=["en"], target_languages=["de"])
    system.save(folder / "model")
    known = json.loads((FIXTURES / "trained" / "generated.json").read_text(encoding="utf-8"))[:60]
    pieces = [(one["source"], found["pieces"]) for one in known for found in one["hypotheses"]]
    pairs = [(source, text.replace(" ", "").replace("\u2581", " ")) for source, text in pieces]
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
            states = system.model.decode(tokens, system.model.encode(Batch({"source": tokens})))
            logits.append(system.model.project(states))
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
    refuses(ValueError, "id 5 is outside the vocabulary of 5", tokenizer.symbol, 5)


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


def test_the_unknown_symbol_behind_the_pieces_has_its_new_number(tmp_path):
    tokenizer = System.from_description(GOLDEN / "model").output.tokenizer
    symbols = sorted(tokenizer.id(name) for name in tokenizer.symbols)
    (tmp_path / "kept.json").write_text(str(symbols))
    trimmed = TrimmedTokenizer(tokenizer=tokenizer, kept=str(tmp_path / "kept.json"))
    assert set(trimmed.encode("one two")) == {symbols.index(tokenizer.unk)}


def test_what_cannot_be_trimmed_is_said(original, tmp_path):
    model, _, covering = original
    for same in (model, model.parent / ".." / model.parent.name / model.name):
        refuses(UsageError, "give another place", trim, model, [covering], same)
    empty = manifest(tmp_path / "empty.arrow", [])
    refuses(DataError, "no text in source_text, target_text", trim, model, [empty], tmp_path / "trimmed")
    assert not (tmp_path / "trimmed").exists()


NO_LISTS = ["[]", "[1, 0]", "[0, 0]", "[-1]", "[0, 99999]", "{}", "null", '"01"', "[0, true]", '[0, "a"]', "[0, 0.5]"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *[("nothing", "cannot be read as a list"), ("[5]", "lacks ")],
        *((text, "not a list of ids below") for text in NO_LISTS),
    ],
)
def test_lists_that_are_none_are_refused(content, said, tmp_path):
    (tmp_path / "kept.json").write_text(content)
    tokenizer = System.from_description(GOLDEN / "model").output.tokenizer
    refuses(DataError, rf"kept\.json: {said}", TrimmedTokenizer, tokenizer=tokenizer, kept=str(tmp_path / "kept.json"))
    (tmp_path / "kept.json").write_text(str([*range(tokenizer.size + 1)]))  # the number behind the last
    said = f"not a list of ids below {tokenizer.size}"
    refuses(DataError, said, TrimmedTokenizer, tokenizer=tokenizer, kept=str(tmp_path / "kept.json"))


class SymbolCounts(Described, nn.Module):
    """A head that no other module knows: it scores the symbols of the input "second"."""

    symbols_of = "second"

    def __init__(self, *, vocabulary: int) -> None:
        super().__init__()
        self.counts = nn.Parameter(torch.arange(float(vocabulary)))

    def symbol_tensors(self):
        return ["counts"]


class Silent(Translator):
    """Says nothing about its parts."""

    def symbol_fields(self):
        return {}


@pytest.fixture
def several_vocabularies(monkeypatch):
    """Return a system with two inputs, a CTC head and a decoder that have four tokenizers among them."""
    monkeypatch.setattr(described, "PACKAGES", (*described.PACKAGES, __name__))
    tokenizers = {}
    for number, name in enumerate(("source", "second", "ctc", "target")):
        tokenizers[name] = small.tokenizer(WORDS * 9, kind="bpe", size=265 + number)
    torch.manual_seed(0)
    target, ctc = embedding(tokenizers["target"]), tokenizers["ctc"]
    parts = {"embeddings": {name: embedding(tokenizers[name]) for name in ("source", "second")}}
    parts |= {"encoder": small.encoder(1, [1]), "target_embedding": target}
    parts["projection"] = TiedProjection(embedding=target, bias=True)
    parts["heads"] = {
        "ctc": CtcHead(tap=1, width=16, vocabulary=ctc.size, blank=ctc.blank),
        "letters": SymbolCounts(vocabulary=tokenizers["second"].size),
    }
    inputs = {name: small.text(tokenizers[name]) for name in ("source", "second")}
    options = {"inputs": inputs, "reads": ["source"], "ctc_output": small.text(ctc, prefix=[], suffix=[])}
    return small.system(tokenizers["target"], small.translator(tokenizers["target"], **parts), **options).eval()


def test_each_part_is_trimmed_by_the_tokenizer_of_its_own_text(several_vocabularies, tmp_path):
    whole = several_vocabularies
    covering = manifest(tmp_path / "a.arrow", [("abc cab", "aabb")])
    whole.save(tmp_path / "model")
    trim(tmp_path / "model", [covering], tmp_path / "trimmed")
    trimmed = System.load(tmp_path / "trimmed")
    fields = {"source": whole.inputs["source"], "second": whole.inputs["second"], "ctc": whole.ctc_output}
    mine = {"source": trimmed.inputs["source"], "second": trimmed.inputs["second"], "ctc": trimmed.ctc_output}
    fields["target"], mine["target"] = whole.output, trimmed.output
    kept = {name: mine[name].tokenizer.kept for name in fields}
    assert len({len(ids) for ids in kept.values()}) > 1
    rows = {
        "model.embeddings.source.tokens.weight": "source",
        "model.embeddings.second.tokens.weight": "second",
        "model.target_embedding.tokens.weight": "target",
        "model.projection.bias": "target",
        "model.heads.ctc.projection.weight": "ctc",
        "model.heads.ctc.projection.bias": "ctc",
        "model.heads.letters.counts": "second",
    }
    before, after = whole.state_dict(), trimmed.state_dict()
    for name, value in before.items():
        expected = value[kept[rows[name]]] if name in rows else value
        assert torch.equal(after[name], expected), name
    assert {name: t.fingerprint for name, t in whole.tokenizers_of_rows().items()} == {
        name: fields[text].tokenizer.fingerprint for name, text in rows.items()
    }
    search = CtcGreedySearch()
    texts = ["abc cab", "abc"]
    for reads in (["source"], ["second"]):
        pair = [through_ctc(one.for_task(reads=reads)) for one in (whole, trimmed)]
        scores = [one.model.heads["ctc"] for one in pair]
        assert scores[1].blank == kept["ctc"].index(scores[0].blank)
        assert [len(one.hypotheses(texts, search=search)) for one in pair] == [2, 2]
        for name in ("embeddings.source", "target_embedding"):
            part = pair[1].tokenizers_of_rows()[f"model.{name}.tokens.weight"]
            assert part.fingerprint == mine["source" if "source" in name else "target"].tokenizer.fingerprint


def test_a_part_without_an_owner_is_not_trimmed(several_vocabularies, tmp_path):
    arguments = several_vocabularies.model.arguments
    System(**several_vocabularies.arguments | {"model": Silent(**arguments)}).save(tmp_path / "model")
    covering = manifest(tmp_path / "a.arrow", [("abc cab", "aabb")])
    with pytest.raises(DataError, match="Silent: .* the symbols of model.embeddings.source are of"):
        trim(tmp_path / "model", [covering], tmp_path / "trimmed")


def test_parts_are_taken_only_with_their_own_symbols(several_vocabularies, tmp_path):
    system = several_vocabularies
    system.save(tmp_path / "model")
    other = small.text(system.output.tokenizer)
    swapped = System(**system.arguments | {"ctc_output": other})
    part = "model.heads.ctc"
    taken = Initialise(folder=str(tmp_path / "model"), parts={part: part})
    assert taken.apply(system)
    refuses(DataError, r"another tokenizer .* \(model.heads.ctc.projection.weight\)", taken.apply, swapped)
