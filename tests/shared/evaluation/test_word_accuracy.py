"""Words by their frequency in training, by hand; the phase that reads tables of outputs."""

import json

import pytest

from shared.corpus.manifest import Manifest
from shared.errors import DataError, UsageError
from shared.evaluation.outputs import Outputs
from shared.evaluation.word_accuracy import by_frequency, frequencies
from shared.machine.workspace import Workspace
from shared.phases import WordAccuracy

TRAIN = ["a a a a b", "a b c.", "A c"]
HYPOTHESES = ["a b b x", "c A"]
REFERENCES = ["a b c x", "c, c d"]


def test_words_are_counted_in_their_buckets():
    counts = frequencies(TRAIN, "en")
    assert counts == {"a": 5, "b": 2, "c": 2, "A": 1}
    rare, middle, frequent = by_frequency(HYPOTHESES, REFERENCES, counts, "en", edges=(2, 5))
    assert (rare.matches, rare.written, rare.wanted) == (1, 2, 2)  # x is right; A was written, d wanted
    assert (middle.matches, middle.written, middle.wanted) == (2, 3, 4)  # one b of two; one c of three
    assert (frequent.matches, frequent.written, frequent.wanted) == (1, 1, 1)
    assert [bucket.name for bucket in (rare, middle, frequent)] == ["0-1", "2-4", "5+"]
    precision, recall = 2 / 3, 2 / 4
    assert middle.f_measure == pytest.approx(100 * 2 * precision * recall / (precision + recall))
    assert by_frequency([""], [""], counts, "en")[0].f_measure == 0.0


def test_what_does_not_fit_is_refused():
    with pytest.raises(UsageError, match=r"edges must rise and be above 0, not \[5, 2\]"):
        by_frequency([], [], {}, "en", edges=(5, 2))
    with pytest.raises(DataError, match="1 hypotheses, but 2 references"):
        by_frequency(["a"], ["a", "b"], {}, "en")


def test_the_phase_reads_outputs_and_training_text(tmp_path):
    rows = [{"id": str(n), "target_text": text, "target_language": "en"} for n, text in enumerate(TRAIN)]
    train = Manifest.write(tmp_path / "train.arrow", rows)
    Outputs(["1", "2"], HYPOTHESES, [REFERENCES], ["", ""]).write(tmp_path / "de-en.test.tsv")
    phase = WordAccuracy(
        model=str(tmp_path / "model"),
        outputs=[str(tmp_path / "de-en.test.tsv")],
        train=[str(train.path)],
        language="en",
        edges=[2, 5],
    )
    phase.run(Workspace(output=tmp_path, recipe="a/test", phase="words", noprogressbar=True, device="cpu"))
    found = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [(row["split"], row["metric"], row["value"]) for row in found] == [
        ("de-en.test:0-1", "word_f", 50.0),
        ("de-en.test:2-4", "word_f", 57.14),
        ("de-en.test:5+", "word_f", 100.0),
    ]
