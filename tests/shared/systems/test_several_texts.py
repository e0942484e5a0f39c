"""A system with several inputs and several outputs in one folder, and beginnings of outputs that are forced."""

import numpy as np
import pytest
import torch

from dragoman import BeamSearch, GreedySearch, Rules, System, UsageError
from dragoman.shared.batches.loader import collate
from dragoman.shared.padded import Padded
from tests import small
from tests.test_nouns import WORDS, embedding

ROWS = [{"id": w, "source_text": w, "source_language": "en", "target_language": "de"} for w in WORDS]


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(WORDS * 9, size=262)


def several(tokenizer, other):
    """Return a system that reads a source, or a second text with another tokenizer, and writes either language."""
    torch.manual_seed(4)
    embeddings = {"source": embedding(tokenizer), "second": embedding(other)}
    inputs = {"source": small.text(tokenizer), "second": small.text(other)}
    options = {"inputs": inputs, "reads": ["source"], "other_outputs": {"transcript": small.text(tokenizer)}}
    return small.system(tokenizer, small.translator(tokenizer, embeddings=embeddings), **options).eval()


@pytest.fixture(scope="module")
def other_tokenizer():
    return small.tokenizer(WORDS * 9, ["en"], kind="bpe", size=272)


def test_one_folder_reads_either_input_and_writes_either_text(tokenizer, other_tokenizer, tmp_path):
    several(tokenizer, other_tokenizer).save(tmp_path / "model")
    system = System.load(tmp_path / "model")
    search = BeamSearch(beam=3, rules=Rules(maximum_length_extra=6))
    for name, side in (("source", "target"), ("second", "target"), ("source", "source"), ("second", "source")):
        writes = {"target": "translation", "source": "transcript"}[side]
        task = system.for_task(reads=[name], writes=writes)
        batch = collate(ROWS, {name: system.inputs[name]}, np.random.default_rng(0))
        assert list(batch.fields) == [name]
        start = Padded.from_sequences([torch.tensor([tokenizer.id({"target": "<de>", "source": "<en>"}[side])])] * 6)
        wanted = search.search(system.model, batch, prefix=start, end=tokenizer.eos, padding=tokenizer.pad)
        found = task.hypotheses(WORDS, search=search)
        assert [h[0].tokens for h in found] == [h[0].tokens for h in wanted]
        assert [list(h[0].texts) for h in found] == [[writes]] * 6
    assert system.for_task(reads=["source"], writes="translation") is system
    changed = system.for_task(reads=["second"], writes="transcript")
    assert changed.model is system.model and changed.output_languages == ["en"]
    changed.save(tmp_path / "changed")
    assert System.load(tmp_path / "changed").reads == ["second"]
    small.refuses(UsageError, "can read source and second, not 'speech'", system.for_task, reads=["speech"])
    small.refuses(UsageError, "can write translation or transcript, not 'summary'", system.for_task, writes="summary")


def test_a_forced_beginning_is_continued_as_the_model_says(tokenizer, other_tokenizer):
    system = several(tokenizer, other_tokenizer)
    data = collate(ROWS, system.input_fields, np.random.default_rng(0))
    beginnings = [tokenizer.encode(word[:size]) for word, size in zip(WORDS, (0, 1, 2, 3, 0, 2), strict=True)]
    rules = Rules(maximum_length_extra=6)
    found = system.translate_batch(data, GreedySearch(rules=rules), forced=beginnings)
    for row, (hypotheses, forced) in enumerate(zip(found, beginnings, strict=True)):
        tokens = [tokenizer.id("<de>"), *forced]  # one row at a time, one token at a time, with nothing kept
        encoding = system.model.encode(data).select(torch.tensor([row]))
        while len(tokens) < 8 and tokens[-1] != tokenizer.eos:
            prefix = Padded(torch.tensor([tokens]), torch.tensor([len(tokens)]))
            scores = system.model.log_probabilities(prefix, encoding)[0, -1]
            scores[tokenizer.pad] = -torch.inf
            if len(tokens) == 1:
                scores[tokenizer.eos] = -torch.inf
            tokens.append(int(scores.argmax()) if len(tokens) < 7 else tokenizer.eos)
        assert hypotheses[0].tokens == tokens[1:]
