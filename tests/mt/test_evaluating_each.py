"""A matrix of scores: each model on each test, with the scores that Evaluate writes; an interrupted one goes on."""

import re

import pytest
import sacrebleu

from dragoman import Hypothesis, Manifest, System, UsageError
from dragoman.mt.evaluating_each import EvaluateEach
from dragoman.shared import described
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.results import read
from dragoman.shared.phases import Evaluate
from dragoman.shared.search import BeamSearch
from tests import small
from tests.small import refuses

TEXTS = {"de-en": ["ab cd ef ab", "cd ab fe dc", "ba dc fe"], "fr-en": ["ab cd ef ab cd", "dc ba", "ef ef ef ab"]}


class Copies(System):
    """Writes its input as it is."""

    turned = False

    def translate_batch(self, batch, search, *, forced=None):
        texts = [self.output.tokenizer.decode(row.tolist()) for row in batch["source"].rows()]
        return [[Hypothesis([], 0.0, {"translation": text[::-1] if self.turned else text})] for text in texts]


class Turns(Copies):
    """Writes its input backwards."""

    turned = True


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Two models and two tests: of the first rows the reference is the input, of the others the input backwards."""
    monkeypatch.setattr(described, "PACKAGES", (*described.PACKAGES, __name__))
    tokenizer = small.tokenizer(["abcdef fedcba"] * 9, ["de", "fr", "en"])
    known = {"source_languages": ["de", "fr"], "target_languages": ["en"]}
    for name, kind in (("de", Copies), ("fr", Turns)):
        small.system(tokenizer, cls=kind, **known).save(tmp_path / name)
    for pair, texts in TEXTS.items():
        codes = {"source_language": pair[:2], "target_language": "en"}
        rows = [small.row(f"{pair}{n}", text, reference(n, text), **codes) for n, text in enumerate(texts)]
        Manifest.write(tmp_path / pair / "test.arrow", rows)
    return tmp_path


def reference(number, text):
    return text if number < 1 else text[::-1]


def asked(folder):
    tests = [str(folder / pair / "test.arrow") for pair in TEXTS]
    return {"manifests": tests, "search": BeamSearch(), "budget": Budget(rows=2), "metrics": ["bleu", "chrf"]}


def matrix(folder, run="run", **changes):
    models = {"de": str(folder / "de"), "fr": str(folder / "fr")}
    phase = EvaluateEach(**{"models": models} | asked(folder) | changes)
    return (small.run(phase, folder / run, "matrix").folder / "matrix.md").read_text()


def cells(text):
    """Return the numbers of a matrix by metric, row and column."""
    found = {}
    for block in re.split(r"\n\n(?=[a-z])", text):
        title, _, table = block.partition("\n\n")
        headings, _, *rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()]
        for row in rows:
            found |= {(title.split()[0], row[0], column): row[n] for n, column in enumerate(headings) if n}
    return found


def test_cells_are_the_scores_of_each_model_on_each_test(world):
    found = cells(matrix(world))
    for model, write in (("de", lambda text: text), ("fr", lambda text: text[::-1])):
        scores = []
        for pair, texts in TEXTS.items():
            references = [reference(n, text) for n, text in enumerate(texts)]
            outputs = [write(text) for text in texts]
            bleu = sacrebleu.corpus_bleu(outputs, [references]).score
            assert found["bleu", model, pair] == f"{bleu:.1f}"
            assert found["chrf", model, pair] == f"{sacrebleu.corpus_chrf(outputs, [references]).score:.1f}"
            scores.append(bleu)
        assert float(found["bleu", model, "mean"]) == pytest.approx(sum(scores) / 2, abs=0.06)
    assert found["bleu", "de", "de-en"] != found["bleu", "fr", "de-en"]


def test_results_are_those_that_evaluate_writes(world):
    matrix(world)
    small.run(Evaluate(model=str(world / "fr"), **asked(world)), world / "alone", "matrix/fr")
    kept = ("phase", "split", "metric", "value", "signature", "lines", "outputs", "model")
    wanted = [{key: row[key] for key in kept} for row in read(world / "alone" / "results.jsonl")]
    rows = [row for row in read(world / "run" / "results.jsonl") if row["phase"] == "matrix/fr"]
    assert [{key: row[key] for key in kept} for row in rows] == wanted
    assert len(wanted) == 4
    assert (world / "run" / "matrix/fr/fr-en.test.tsv").is_file()


def test_a_model_that_is_tested_is_not_tested_again(world):
    whole = matrix(world)
    first = world / "run/matrix/de/de-en.test.tsv"
    written = first.stat().st_mtime_ns
    (world / "run/matrix/fr/done").unlink()
    second = world / "run/matrix/fr/de-en.test.tsv"
    second.unlink()
    assert matrix(world) == whole
    assert (first.stat().st_mtime_ns, second.is_file()) == (written, True)


@pytest.mark.parametrize("models", [{}, {"": "x"}, {"a/b": "x"}])
def test_models_without_a_name_are_refused(world, models):
    refuses(UsageError, "models must be folders, each with a name", matrix, world, models=models)
