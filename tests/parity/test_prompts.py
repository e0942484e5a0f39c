"""The three passes of SGA against transformers' XLM-R, whose cache of the past holds prompts and guide."""

from __future__ import annotations

import pytest
import torch

from dragoman.exchange.huggingface.hf_model import MaskedEncoder
from dragoman.exchange.huggingface.hf_reading import Config, read_tensors
from dragoman.mt.sga import SemanticGenerator
from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from tests.parity.text_models import disturbed

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

HEADS, LAYERS, PROMPTS = 4, 3, 5
BLANK, MASK = 0, 52
SETTINGS = {
    "vocab_size": 53, "hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "intermediate_size": 40, "max_position_embeddings": 40, "type_vocab_size": 1, "pad_token_id": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    torch.manual_seed(1)
    theirs = transformers.XLMRobertaForMaskedLM(transformers.XLMRobertaConfig(**SETTINGS, initializer_range=0.3))
    theirs = disturbed(theirs).eval()
    folder = tmp_path_factory.mktemp("model")
    theirs.save_pretrained(folder)
    read = MaskedEncoder(Config(folder / "config.json"), read_tensors(folder)[0])
    reader = read.build()
    read.load(reader, "test")
    model = SemanticGenerator(reader=reader, blank=BLANK, mask=MASK, prompts=PROMPTS)
    with torch.no_grad():
        for prompt in (model.semantic, model.alignment, model.denoising):
            prompt.keys_values.normal_(std=2)
            prompt.scale.fill_(1.5)
        model.head.vector.normal_()
        model.head.bias.fill_(0.3)
    return theirs, model.eval()


def by_transformers(theirs, tokens, past):
    """Read one sentence (L,) after a past: for each layer, keys and values (P, D)."""
    length, width = len(tokens), SETTINGS["hidden_size"]
    split = [[part.view(1, -1, HEADS, width // HEADS).transpose(1, 2) for part in layer] for layer in past]
    seen = transformers.DynamicCache()
    for number, (keys, values) in enumerate(split):
        seen.update(keys, values, number)
    return theirs(
        input_ids=tokens[None],
        attention_mask=torch.ones(1, length + len(past[0][0])),
        position_ids=torch.arange(2, 2 + length)[None],  # XLM-R counts from behind its padding symbol
        past_key_values=seen,
        output_hidden_states=True,
    )


def own(prompt):
    return [tuple(layer * prompt.scale) for layer in prompt.keys_values]


def with_blank(model, theirs, states, logits):
    """Return logits whose column of the blank is made by its own vector."""
    head = theirs.lm_head
    hidden = head.layer_norm(torch.nn.functional.gelu(head.dense(states)))
    columns = list(logits.unbind(-1))
    columns[BLANK] = (hidden * model.head.vector).sum(-1) + model.head.bias
    return torch.stack(columns, -1)


def expected(theirs, model, source, loops):
    """Make T_0, T_1, ... of one sentence (S,)."""
    guide = []
    for states in by_transformers(theirs, source, own(model.semantic)).hidden_states[1:]:
        maps = (model.keys, model.values)
        guide.append([torch.nn.functional.linear(states[0], one.weight, one.bias) for one in maps])
    tokens, paths = torch.full((2 * len(source),), MASK), []
    for prompt in [model.alignment, *[model.denoising] * loops]:
        pairs = zip(guide, own(prompt), strict=True)
        past = [tuple(map(torch.cat, zip(known, more, strict=True))) for known, more in pairs]
        found = by_transformers(theirs, tokens, past)
        paths.append(with_blank(model, theirs, found.hidden_states[-1][0], found.logits[0]))
        order = paths[-1].argsort(descending=True)
        tokens = torch.stack([second if best == BLANK else best for best, second in order[:, :2]])
    return paths


@torch.no_grad()
def test_all_passes_for_sentences_of_several_lengths(models):
    theirs, model = models
    torch.manual_seed(3)
    sources = [torch.randint(2, MASK, (length,)) for length in (4, 7, 1, 6)]
    batch = Batch({"source": Padded.from_sequences(sources, padding=1)})
    extras = model.encode(batch).extras
    last = model.refined(batch, 4)
    blanks = 0
    for row, source in enumerate(sources):
        paths = expected(theirs, model, source, 4)
        for found, path in ((extras["logits.alignment"], 0), (extras["logits.denoising"], 1), (last, 4)):
            assert int(found.lengths[row]) == 2 * len(source)
            torch.testing.assert_close(found.rows()[row], paths[path], atol=1e-3, rtol=1e-3)
        blanks += sum(int((path.argmax(-1) == BLANK).sum()) for path in paths)
    assert blanks  # without any, the second best symbols are not seen
