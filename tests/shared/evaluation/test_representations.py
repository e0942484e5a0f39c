"""Vectors of words and sentences: hand values, a loop, scikit-learn's convention, and the phases that record them."""

import numpy as np
import pytest
import torch

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.retrieving import PairDistance, Retrieve
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.representations import (
    last_states,
    principal_axes,
    retrieved,
    sentence_vectors,
    similarity,
    word_vectors,
)
from dragoman.shared.evaluation.results import read
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.padded import Padded
from dragoman.shared.systems.encoder_system import EncoderSystem
from tests import small
from tests.small import refuses

ENGLISH = ["the dog", "a red house", "we go", "the red dog"]
GERMAN = ["der hund", "ein rotes haus", "wir gehen", "der rote hund"]


@pytest.fixture(scope="module")
def system():
    torch.manual_seed(1)
    tokenizer = small.tokenizer(ENGLISH * 3 + GERMAN * 3)
    embedding = small.embedding(tokenizer, 16, None, dropout=0.3)
    parts = {"embeddings": {"source": embedding}, "target_embedding": embedding}
    model = small.translator(tokenizer, sizes={"feedforward": 16, "dropout": 0.3}, **parts)
    return small.system(tokenizer, model, output=TextField(tokenizer=tokenizer))


@pytest.fixture
def manifest(tmp_path):
    rows = [small.row(n, one, other) for n, (one, other) in enumerate(zip(ENGLISH, GERMAN, strict=True))]
    return Manifest.write(tmp_path / "en-de" / "test.arrow", rows)


def workspace(folder):
    return Workspace(output=folder, recipe="a/test", phase="look", noprogressbar=True, device="cpu")


def test_a_words_vector_is_the_mean_of_its_pieces(system):
    tokenizer = system.output.tokenizer
    weight = system.model.embeddings["source"].weight
    wanted = sum(weight[id] for id in tokenizer.encode("dog")) / len(tokenizer.encode("dog"))
    torch.testing.assert_close(word_vectors(system, ["dog"])[0], wanted.detach())
    refuses(DataError, "'' has no pieces", word_vectors, system, [""])


def test_cosines_of_translations_and_of_others_by_hand():
    one = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    other = torch.tensor([[5.0, 0.0], [0.0, -1.0], [1.0, 1.0]])
    found = similarity(one, other)
    root = 0.5**0.5
    assert found.pairs == 3 and found.translations == pytest.approx((1 - 1 + 1) / 3)
    assert found.others == pytest.approx((0 + root + 0 + root + root - root) / 6)
    refuses(DataError, "1 pairs of words are too few", similarity, one[:1], other[:1])


def test_axes_are_those_of_the_covariance():
    vectors = torch.randn(30, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    vectors[:, 2] *= 5
    found = principal_axes(vectors).numpy()
    values, axes = np.linalg.eigh(np.cov(vectors.numpy().T))
    wanted = (vectors.numpy() - vectors.numpy().mean(0)) @ axes[:, ::-1][:, :2]
    np.testing.assert_allclose(np.abs(found), np.abs(wanted), atol=1e-8)
    np.testing.assert_allclose(found.var(0, ddof=1), values[::-1][:2])
    assert np.corrcoef(found[:, 0], vectors[:, 2])[0, 1] > 0


def test_sentence_vectors_are_means_of_states_on_either_side(system, manifest, tmp_path):
    for column, language in (("source_text", "en"), ("target_text", "de")):
        found = sentence_vectors(system, manifest, column, Budget(rows=3), workspace(tmp_path))
        for number, text in enumerate(manifest.column(column).to_pylist()):
            tokenizer = system.output.tokenizer
            ids = [tokenizer.id(f"<{language}>"), *tokenizer.encode(text), tokenizer.eos]
            alone = Batch({"source": Padded(torch.tensor([ids]), torch.tensor([len(ids)]))})
            with torch.no_grad():
                states = system.model.eval().encode(alone)
            wanted = states.memories["source"].values[0].mean(0)
            torch.testing.assert_close(found[number], wanted, atol=1e-5, rtol=1e-5)


def test_last_states_are_those_of_the_end_with_the_text_on_both_sides(system, manifest, tmp_path):
    found = {
        column: last_states(system, manifest, column, Budget(rows=3), workspace(tmp_path))
        for column in ("source_text", "target_text")
    }
    tokenizer = system.output.tokenizer
    ids = torch.tensor([[tokenizer.id("<de>"), *tokenizer.encode(GERMAN[1]), tokenizer.eos]])
    alone = Padded(ids, torch.tensor([ids.shape[1]]))
    with torch.no_grad():
        states = system.model.eval().decode(alone, system.model.encode(Batch({"source": alone})))
    torch.testing.assert_close(found["target_text"][1], states[0, -1], atol=1e-5, rtol=1e-5)
    system.save(tmp_path / "model")
    phase = PairDistance(model=str(tmp_path / "model"), manifests=[str(manifest.path)], budget=Budget(rows=3), limit=3)
    phase.run(workspace(tmp_path))
    [row] = read(tmp_path / "results.jsonl")
    apart = (found["source_text"] - found["target_text"])[:3].pow(2).sum().sqrt()
    assert row["metric"] == "distance" and row["lines"] == 3
    assert row["value"] == pytest.approx(float(apart), abs=0.006)


def test_a_sentence_is_found_if_no_other_is_nearer():
    queries = torch.tensor([[1.0, 0.1], [0.1, 1.0], [1.0, 1.0], [1.0, 0.2]])
    candidates = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [1.0, 0.0]])
    assert retrieved(queries, candidates, ["a", "b", "c", "d"]) == 2
    assert retrieved(queries, candidates, ["a", "b", "c", "a"]) == 3  # the first of two equal texts is right as well


def test_sentences_are_found_by_the_states_of_a_tap(system, tmp_path):
    torch.manual_seed(5)
    layer = Layer(width=16, heads=2, feedforward=16, dropout=0.0)
    embeddings = {"source": system.model.embeddings["source"]}
    model = EncoderModel(embeddings=embeddings, encoder=Encoder(layer=layer, layers=3, taps=[0]))
    encoder = EncoderSystem(model=model, inputs=system.inputs, source_languages=["de", "en"]).eval()
    encoder.save(tmp_path / "model")
    rows = [small.row(n, one, other) for n, (one, other) in enumerate(zip(ENGLISH, GERMAN, strict=True))]
    manifest = Manifest.write(tmp_path / "en-de" / "test.arrow", rows)
    field, sides = encoder.inputs["source"], []
    for column in ("source", "target"):
        means = []
        for row in rows:
            asked = {"source_text": row[f"{column}_text"], "source_language": row[f"{column}_language"]}
            x = model.embeddings["source"](Padded.from_sequences([field(asked, None)])).values
            means.append(model.encoder.layers[0](x)[0].mean(0))
        sides.append(torch.stack(means))
        found = sentence_vectors(encoder, manifest, f"{column}_text", Budget(rows=3), workspace(tmp_path), tap=1)
        torch.testing.assert_close(found, sides[-1].detach(), atol=1e-5, rtol=1e-4)
    given = {"model": str(tmp_path / "model"), "manifests": [str(manifest.path)], "budget": Budget(rows=2)}
    Retrieve(tap=1, **given).run(workspace(tmp_path))
    [row] = read(tmp_path / "results.jsonl")
    assert row["signature"] == "vectors:mean of states of tap 1|cosine"
    assert row["forward"] == 100 * retrieved(*sides, GERMAN) / 4 and row["backward"] == 25 * retrieved(
        *sides[::-1], ENGLISH
    )
    refuses(UsageError, r"no layer or tap 4, only taps \[0\]", Retrieve(tap=4, **given).run, workspace(tmp_path))
