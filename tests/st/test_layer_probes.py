"""Linear probes: the optimum of a convex loss, texts that are separable by hand, and what no layer can know."""

import numpy as np
import pytest
import torch

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.results import read
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.recurrent import LstmEncoder
from dragoman.st.layer_probes import ProbeLayers, layer_means, logistic_regression
from tests import small
from tests.small import refuses

TEXTS = ["ab", "ba", "cd", "dc", "abab", "cdcd", "bba", "ddc"]  # a and b on one side, c and d on the other


@pytest.fixture(scope="module")
def system():
    torch.manual_seed(1)
    tokenizer = small.tokenizer(TEXTS * 4, ["en", "de"])
    embedding = small.embedding(tokenizer, 16, None, dropout=0.3)
    parts = {"embeddings": {"source": embedding}, "target_embedding": embedding}
    return small.system(tokenizer, small.translator(tokenizer, layers=2, **parts))


def written(folder, texts, **columns):
    rows = [small.row(n, text, text) | {key: of(text) for key, of in columns.items()} for n, text in enumerate(texts)]
    return str(Manifest.write(folder / "train.arrow", rows).path)


def workspace(folder):
    return Workspace(output=folder / "run", device="cpu", phase="probe", recipe="test", workers=0, noprogressbar=True)


def probe(folder, train, test, **options):
    given = {"model": str(folder / "model"), "train": [train], "manifests": [test], "budget": Budget(rows=3)}
    return ProbeLayers(**given | {"label": "speaker"} | options)


def scores(folder):
    return {row["metric"]: row["value"] for row in read(folder / "run" / "results.jsonl")}


def test_the_classifier_is_where_the_loss_has_no_slope():
    """By hand: penalty W = 1/N sum_n (onehot_n - p_n) x_n, and the same sum without x is 0 for the bias."""
    rng = np.random.default_rng(3)
    x, labels = rng.normal(size=(40, 5)), rng.integers(3, size=40)
    weight, bias = (found.numpy() for found in logistic_regression(*map(torch.from_numpy, (x, labels)), 3, 0.05))
    odds = np.exp(x @ weight.T + bias)
    missing = np.eye(3)[labels] - odds / odds.sum(1, keepdims=True)
    np.testing.assert_allclose(0.05 * weight, missing.T @ x / 40, atol=1e-6)
    np.testing.assert_allclose(missing.sum(0), 0, atol=1e-4)


def test_states_behind_each_layer_are_those_of_the_layers_one_by_one(system, tmp_path):
    manifest = Manifest.open(written(tmp_path, TEXTS))
    found = layer_means(system, manifest, "source", Budget(rows=3), workspace(tmp_path))
    assert [*found] == ["encoder.0", "encoder.1", "encoder.2"] and system.model.encoder.taps == []
    assert not system.model.encoder._forward_hooks
    model, field = system.model.eval(), system.inputs["source"]
    for number, text in enumerate(TEXTS):
        ids = field(small.row(0, text), None)
        states = model.embeddings["source"](small.padded([ids])).values
        for layer, module in enumerate([None, *model.encoder.layers]):
            states = states if module is None else module(states)
            left = model.encoder.norm(states) if layer == 2 else states
            torch.testing.assert_close(found[f"encoder.{layer}"][number], left[0].mean(0).detach())


def test_what_separates_the_texts_is_read_off_and_what_does_not_is_not(system, tmp_path):
    system.save(tmp_path / "model")
    sides = {"speaker": lambda text: "left" if "a" in text else "right"}
    train = written(tmp_path / "one", TEXTS, **sides)
    test = written(tmp_path / "other", ["aab", "bab", "ccd", "dcd", "abba"], **sides)
    probe(tmp_path, train, test).run(workspace(tmp_path))
    layers = [f"speaker.encoder.{layer}" for layer in range(3)]
    assert scores(tmp_path) == dict.fromkeys(layers, 100.0) | {"speaker.commonest": 60.0}


def test_the_order_is_nothing_that_a_bag_of_tokens_knows(system, tmp_path):
    """Layer 0 has no positions, so that "ab" and "ba" are one point to it, and each is right half of the time."""
    system.save(tmp_path / "model")
    texts = ["ab", "ba", "cd", "dc"]
    train = written(tmp_path / "one", texts, speaker=lambda text: "up" if text < text[::-1] else "down")
    probe(tmp_path, train, train).run(workspace(tmp_path))
    assert scores(tmp_path)["speaker.encoder.0"] == 50.0


def test_first_words_are_labels_and_unknown_ones_are_left_out(system, tmp_path, caplog):
    system.save(tmp_path / "model")
    train = written(tmp_path / "one", ["ab c", "cd c"])
    test = written(tmp_path / "other", ["ab d", "ba d"])
    probe(tmp_path, train, test, label="source_text").run(workspace(tmp_path))
    [row] = [row for row in read(tmp_path / "run" / "results.jsonl") if row["metric"].endswith("encoder.0")]
    assert (row["left_out"], row["lines"], row["signature"]) == (1, 1, "probe:linear|penalty:0.001|labels:2")
    unknown = written(tmp_path / "third", ["ba d"])
    probe(tmp_path, train, unknown, label="source_text").run(workspace(tmp_path))
    assert "no row has a source_text that training rows have" in caplog.text and not scores(tmp_path)


def test_an_encoder_of_lstm_layers_is_probed_too(system, tmp_path):
    embedding = small.embedding(system.output.tokenizer, 16, None)
    lstm = LstmEncoder(inputs=16, width=8, layers=2)
    parts = {"embeddings": {"source": embedding}, "encoder": lstm, "target_embedding": embedding}
    other = small.system(system.output.tokenizer, small.translator(system.output.tokenizer, **parts))
    manifest = Manifest.open(written(tmp_path, TEXTS))
    found = layer_means(other, manifest, "source", Budget(rows=3), workspace(tmp_path))
    assert {name: table.shape[1] for name, table in found.items()} == {"encoder.0": 16, "encoder.1": 8, "encoder.2": 8}


def test_what_cannot_be_probed_is_refused(system, tmp_path):
    system.save(tmp_path / "model")
    same = written(tmp_path / "one", TEXTS, speaker=lambda text: "one")
    none = written(tmp_path / "two", TEXTS, speaker=lambda text: None if text == "cd" else text)
    place = workspace(tmp_path)
    refuses(DataError, "one/train.arrow: speaker is the same in all 8 rows", probe(tmp_path, same, same).run, place)
    refuses(DataError, "two/train.arrow: row '2' has no speaker", probe(tmp_path, none, same).run, place)
    refuses(DataError, "there is no column 'intent'", probe(tmp_path, same, same, label="intent").run, place)
    speech = probe(tmp_path, none, same, label="id", reads="speech")
    refuses(UsageError, "reads source, not 'speech'", speech.run, place)
