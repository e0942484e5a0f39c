"""Phases that measure a model across languages: cosines and frequencies by hand."""

import pytest
import torch

from dragoman import Manifest
from dragoman.mt.retrieving import Pictures, Retrieve, WordAccuracy, WordSimilarity
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.outputs import Outputs
from dragoman.shared.evaluation.representations import word_vectors
from dragoman.shared.evaluation.results import read
from tests import small
from tests.mt.test_word_accuracy import HYPOTHESES, REFERENCES, TRAIN
from tests.shared.evaluation.test_representations import manifest, system, workspace

__all__ = ["manifest", "system"]  # fixtures


def test_phases_record_scores_tables_and_pictures(system, manifest, tmp_path):
    system.save(tmp_path / "model")
    (tmp_path / "en-de.txt").write_text(
        "the der\ndog hund\ncat katze\nred rot\nred rote\nhouse haus\ndog hündin\nberlin berlin\ngo gehen\n",
        encoding="utf-8",
    )
    texts = [("A dog in Berlin", "Der Hund in Berlin"), ("the red red", "Der Hund rote"), ("dog", "hund"), ("go", None)]
    train = [small.row(n, one, other) for n, (one, other) in enumerate(texts)]
    seen = {"train": [str(Manifest.write(tmp_path / "train.arrow", train).path)]}
    lexicons = {"en-de": str(tmp_path / "en-de.txt")}
    model = str(tmp_path / "model")
    WordSimilarity(model=model, lexicons=lexicons, **seen).run(workspace(tmp_path))
    Pictures(model=model, lexicons=lexicons, words=3, **seen).run(workspace(tmp_path))
    drawn = (tmp_path / "look" / "words.tsv").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[:2] for line in drawn[1:]] == [
        *(["en", word] for word in ("the", "dog", "red")),
        *(["de", word] for word in ("Der", "Hund", "rote")),  # as the training text has them most often
    ]
    assert (tmp_path / "look" / "words.png").stat().st_size > 1000
    rows = read(tmp_path / "results.jsonl")
    assert [(row["split"], row["metric"], row["lines"], row["left_out"]) for row in rows] == [
        ("en-de", "cosine", 3, 5),
        ("en-de", "cosine_of_others", 3, 5),
    ]
    by_hand = word_vectors(system, ["the", "dog", "red"]), word_vectors(system, ["Der", "Hund", "rote"])
    cosines = torch.nn.functional.cosine_similarity(*by_hand)
    assert rows[0]["value"] == pytest.approx(100 * float(cosines.mean()), abs=0.01)
    Retrieve(model=model, manifests=[str(manifest.path)], budget=Budget(rows=2)).run(workspace(tmp_path))
    [row] = read(tmp_path / "results.jsonl")
    assert row["metric"] == "retrieval" and row["value"] == (row["forward"] + row["backward"]) / 2


def test_the_phase_reads_outputs_and_training_text(tmp_path):
    rows = [{"id": str(n), "target_text": text, "target_language": "en"} for n, text in enumerate(TRAIN)]
    train = Manifest.write(tmp_path / "train.arrow", rows)
    Outputs(["1", "2"], HYPOTHESES, [REFERENCES], ["", ""]).write(tmp_path / "de-en.test.tsv")
    given = {"model": str(tmp_path / "model"), "outputs": [str(tmp_path / "de-en.test.tsv")]}
    phase = WordAccuracy(**given, train=[str(train.path)], language="en", edges=[2, 5])
    small.run(phase, tmp_path, "words", recipe="a/test")
    found = read(tmp_path / "results.jsonl")
    assert [(row["split"], row["metric"], row["value"]) for row in found] == [
        ("de-en.test:0-1", "word_f", 50.0),
        ("de-en.test:2-4", "word_f", 57.14),
        ("de-en.test:5+", "word_f", 100.0),
    ]
