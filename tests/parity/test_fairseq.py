"""Checkpoints of fairseq compute here what fairseq computes with them.

``fairseq/`` holds what make_fairseq_fixtures.py wrote inside the environment of ``make fairseq-env``: checkpoints, and
the numbers of fairseq itself. ``make parity`` writes such a folder anew, with another seed, and runs the same tests.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from dragoman import BeamSearch, DataError, Rules, System
from dragoman.exchange.fairseq.fairseq_import import import_fairseq
from dragoman.exchange.fairseq.fairseq_names import counterparts
from dragoman.shared.batch import Batch
from dragoman.shared.objectives.cross_entropy import label_smoothed_cross_entropy
from dragoman.shared.padded import Padded
from tests.parity.compared import Compared

HERE = Path(os.environ.get("FAIRSEQ_FIXTURES") or Path(__file__).parent / "fairseq")
CASES = sorted(path.parent.name for path in HERE.glob("*/expected.safetensors"))
TRANSLATORS = [name for name in CASES if name != "masked_tokens"]
CLOSE = {"atol": 1e-4, "rtol": 1e-4}


def described(name: str) -> str:
    """Return what a case is called in the table."""
    kinds = {"denoising_pre_norm": "mBART cc25", "denoising_post_norm": "BART", "masked_tokens": "RoBERTa, XLM-R"}
    kinds |= {"many_languages": "mBART-50", "tagged_post_norm": "mRASP", "pre_norm_shared": "mRASP2"}
    return kinds.get(name, "Transformer") + f" ({name.replace('_', ' ')})"


def sequences(numbers: dict[str, torch.Tensor], kind: str) -> list[torch.Tensor]:
    return [numbers[f"{kind}.{row}"] for row in range(sum(name.startswith(f"{kind}.") for name in numbers))]


def pad(rows: list[torch.Tensor]) -> Padded:
    return Padded.from_sequences(rows, padding=1)


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    """Return the imported system, saved and loaded again, and fairseq's numbers."""
    languages = {"target_languages": ["de"], "source_languages": ["en"]}
    system, report = import_fairseq(HERE / request.param, pieces=Path("words"), **languages)
    report.check()
    system.save(tmp_path / "model")
    return request.param, System.load(tmp_path / "model"), load_file(HERE / request.param / "expected.safetensors")


def test_encoder_states_logits_loss_and_gradients_are_fairseqs(case, compared):
    name, system, numbers = case
    model = system.model
    compared.named("fairseq", described(name))
    sources = sequences(numbers, "source")
    encoding = model.encode(Batch({"source": pad(sources)}))
    for found, expected in zip(encoding.memories["source"].rows(), sequences(numbers, "states"), strict=True):
        compared.close("states", found, expected)
    if name == "masked_tokens":
        states, project = encoding.memories["source"], model.heads["masked_tokens"]
        labels, label_smoothing = sources, 0.0
    else:
        labels = sequences(numbers, "target")
        decoded = model.decode(pad([torch.cat([row[-1:], row[:-1]]) for row in labels]), encoding)
        states = Padded(decoded, pad(labels).lengths)
        project, label_smoothing = model.project, 0.1
    for found, expected in zip(states.rows(), sequences(numbers, "logits"), strict=True):
        compared.close("logits", project(found), expected)
    rows = torch.cat(states.rows())
    projected, projection = rows, getattr(project, "projection", None) or model.projection
    if name == "masked_tokens":
        projected = project.transform(rows)
    sums = label_smoothed_cross_entropy(projected, projection, torch.cat(labels), label_smoothing=label_smoothing)
    tokens = len(rows)  # fairseq's is their sum
    compared.close("loss", sums.loss / tokens, numbers["loss"] / tokens, tolerance=1e-5)
    sums.loss.backward()
    compare_gradients(model, numbers, compared)
    assert system.output.tokenizer.size == project(rows[:1]).shape[-1]


def compare_gradients(model: torch.nn.Module, numbers: dict[str, torch.Tensor], found: Compared) -> None:
    theirs = {name.removeprefix("gradient."): value for name, value in numbers.items() if name.startswith("gradient.")}
    theirs = {n.replace("encoder.sentence_encoder.", "encoder."): value for n, value in theirs.items()}
    for name, parameter in model.named_parameters():
        found.close("gradients", parameter.grad, torch.cat([theirs[p] for p in counterparts(name)]), message=name)
    assert {part for name, _ in model.named_parameters() for part in counterparts(name)} == {*theirs}


@pytest.mark.parametrize("name", TRANSLATORS)
def test_steps_with_a_cache_give_fairseqs_logits(name):
    system, _ = import_fairseq(HERE / name, pieces=Path("words"), target_languages=["de"], source_languages=["en"])
    numbers = load_file(HERE / name / "expected.safetensors")
    targets, logits = sequences(numbers, "target"), sequences(numbers, "logits")
    with torch.no_grad():
        encoding = system.model.encode(Batch({"source": pad(sequences(numbers, "source"))}))
        previous = pad([torch.cat([row[-1:], row[:-1]]) for row in targets]).values
        state = system.model.start(encoding, None)
        for step in range(previous.shape[1]):
            found, state = system.model.step(previous[:, step], state)
            for row, expected in enumerate(logits):
                if step < len(expected):
                    torch.testing.assert_close(found[row], expected[step], **CLOSE)


def test_texts_of_many_languages_have_fairseqs_symbols_and_hypotheses(compared):
    """mBART-50: 52 languages in the order of its file, one in front of the source, and one that begins the output."""
    folder = HERE / "many_languages"
    compared.named("fairseq", described("many_languages"))
    system, report = import_fairseq(folder, pieces=Path("words"))
    report.check()
    listed = (folder / "ML50_langs.txt").read_text(encoding="utf-8").split()
    tokenizer = system.output.tokenizer
    assert [tokenizer.symbol(number) for number in range(tokenizer.size - 53, tokenizer.size)] == [
        *(f"[{name}]" for name in listed), "<mask>",
    ]  # fmt: skip
    assert len(listed) == len(system.source_languages) == len(system.target_languages) == 52
    expected = json.loads((folder / "beams.json").read_text(encoding="utf-8"))
    row = {"id": "1", "source_language": "en", "target_language": "de"}
    search = BeamSearch(beam=5, n_best=5, rules=Rules(maximum_length_extra=12))
    languages = {"source_language": "en", "target_language": "de"}
    results = system.hypotheses([one["text"] for one in expected], **languages, search=search)
    for one, found in zip(expected, results, strict=True):
        ids = system.inputs["source"](row | {"source_text": one["text"]}, np.random.default_rng(0))
        compared.same("symbols", [[tokenizer.symbol(int(number)) for number in ids]], [one["symbols"]])
        symbols = [[tokenizer.symbol(token) for token in h.tokens] for h in found]
        compared.same("hypotheses", symbols, [theirs["symbols"] for theirs in one["hypotheses"]])
        compared.close("scores", [h.score for h in found], [theirs["score"] for theirs in one["hypotheses"]])


@pytest.fixture(scope="module")
def trained():
    if not (HERE / "trained").is_dir():
        pytest.skip("there is no trained model here")
    with pytest.raises(DataError, match="does not say its source language: name it with --source-languages"):
        import_fairseq(HERE / "trained")
    system, report = import_fairseq(HERE / "trained", source_languages=["en"], target_languages=["de"])
    report.check()
    return system, json.loads((HERE / "trained" / "generated.json").read_text(encoding="utf-8"))


def test_text_has_fairseqs_ids(trained, compared):
    system, found = trained
    compared.named("fairseq", "Transformer (trained)")
    lines = (HERE / "trained" / "dict.de.txt").read_text(encoding="utf-8").splitlines()
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *(line.rpartition(" ")[0] for line in lines)]
    tokenizer = system.output.tokenizer
    assert [tokenizer.symbol(number) for number in range(tokenizer.size)] == symbols
    numbered = json.loads((HERE / "trained" / "ids.json").read_text(encoding="utf-8"))
    ids = [[*tokenizer.encode(one["text"]), tokenizer.eos] for one in numbered]
    compared.same("symbols", ids, [one["ids"] for one in numbered])
    assert len(numbered) >= 1000
    ids = tokenizer.encode(found[0]["source"])
    assert tokenizer.decode(ids) == found[0]["source"]


def test_beam_search_finds_fairseqs_hypotheses_and_scores(trained, compared):
    system, expected = trained
    compared.named("fairseq", "Transformer (trained)")
    assert len(expected) == 200
    results = system.hypotheses([one["source"] for one in expected], search=BeamSearch(beam=5, n_best=5))
    symbol, end = system.output.tokenizer.symbol, system.output.tokenizer.eos
    for one, found in zip(expected, results, strict=True):
        assert all(hypothesis.tokens[-1] == end for hypothesis in found)
        pieces = [" ".join(map(symbol, hypothesis.tokens[:-1])) for hypothesis in found]
        compared.same("hypotheses", pieces, [theirs["pieces"] for theirs in one["hypotheses"]])
        # fairseq-generate prints scores in base 2, with four decimals.
        scores = [hypothesis.score / np.log(2) for hypothesis in found]
        compared.close("scores", scores, [theirs["score"] for theirs in one["hypotheses"]], message=one["source"])
