"""The engine for transformers' models, where it needs none: states, experts, prompts around sounds, refusals."""

import pytest
import torch
from torch import nn

from dragoman import DataError, UsageError
from dragoman.exchange.transformers_engine.encoder_decoder import EncoderDecoderModel, EncoderDecoderState
from dragoman.exchange.transformers_engine.library_features import LibraryFeatures
from dragoman.exchange.transformers_engine.library_folder import check_config, plain
from dragoman.exchange.transformers_engine.mixture import BothExperts, check_routing
from dragoman.exchange.transformers_engine.spoken_prompt import SpokenPrompt
from tests import small
from tests.small import refuses


class Cache:
    """A cache of the library's, whose keys are numbers of rows."""

    def __init__(self, rows):
        self.rows = torch.tensor(rows)
        self.layers = [self]

    def get_seq_length(self):
        return int(len(self.rows) > 0)

    def batch_repeat_interleave(self, beams):
        self.rows = self.rows.repeat_interleave(beams)

    def batch_select_indices(self, index):
        self.rows = self.rows[index]


class TwoCaches:
    """Those of outputs and of what they attend to."""

    def __init__(self, rows):
        self.self_attention_cache, self.cross_attention_cache = Cache(rows), Cache(rows)

    def get_seq_length(self):
        return self.self_attention_cache.get_seq_length()

    def batch_repeat_interleave(self, beams):
        self.self_attention_cache.batch_repeat_interleave(beams)
        self.cross_attention_cache.batch_repeat_interleave(beams)


def test_outputs_are_reordered_and_what_they_attend_to_only_when_sentences_leave():
    states = torch.arange(3.0)[:, None, None].expand(3, 4, 2)
    cache = TwoCaches([0, 1, 2])
    forked = EncoderDecoderState(cache, states, torch.ones(3, 4, dtype=torch.bool)).fork(2)
    assert cache.cross_attention_cache.rows.tolist() == [0, 0, 1, 1, 2, 2] and forked.beams == 2
    cache.self_attention_cache.rows = torch.arange(6)
    moved = forked.reorder(torch.tensor([1, 1, 2, 3, 5, 4]))
    assert cache.self_attention_cache.rows.tolist() == [1, 1, 2, 3, 5, 4] and moved is forked
    assert cache.cross_attention_cache.rows.tolist() == [0, 0, 1, 1, 2, 2]
    left = moved.reorder(torch.tensor([0, 0, 5, 4]))
    assert cache.self_attention_cache.rows.tolist() == [1, 1, 4, 5]
    assert cache.cross_attention_cache.rows.tolist() == [0, 0, 2, 2]
    assert left.states[:, 0, 0].tolist() == [0, 0, 2, 2] and left.mask.shape == (4, 4)
    refuses(ValueError, "2 beams of a sentence cannot become 3", left.fork, 3)


class Experts(nn.ModuleDict):
    """Experts as the library has them."""

    def __init__(self, count, width, dropout):
        super().__init__({f"expert_{number}": nn.Linear(width, width) for number in range(count)})
        self.moe_token_dropout = dropout


def test_a_token_has_both_of_its_experts():
    torch.manual_seed(3)
    theirs, states = Experts(5, 4, 0.2), torch.randn(7, 4)
    weights = torch.zeros(7, 5)
    for token in range(7):
        weights[token, token % 5], weights[token, (token + 2) % 5] = 0.7, 0.3
    mixed = BothExperts(theirs)(states, (weights > 0.5).long(), weights)
    for token in range(7):
        first, second = theirs[f"expert_{token % 5}"], theirs[f"expert_{(token + 2) % 5}"]
        wanted = 0.8 * (0.7 * first(states[token]) + 0.3 * second(states[token]))
        torch.testing.assert_close(mixed[token], wanted)


def test_routing_by_chance_or_by_the_batch_is_refused():
    check_routing({"second_expert_policy": "all", "moe_eval_capacity_token_fraction": 1.0})
    refuses(UsageError, "second_expert_policy is 'random'", check_routing, {"second_expert_policy": "random"})
    refuses(UsageError, "by which experts refuse tokens", check_routing, {"moe_eval_capacity_token_fraction": 0.99})


def test_a_prompt_has_a_symbol_for_each_vector_of_a_sound():
    tokenizer = small.tokenizer(["English to German: a b c"])
    parts = ["<de>", "{source_language} to {target_language}", "</s>"]
    prompt = SpokenPrompt(prompt=parts, tokenizer=tokenizer, sound="<de>")
    ids = prompt.whole({"source_language": "en", "target_language": "de"}, 3)
    assert ids == [*[tokenizer.id("<de>")] * 3, *tokenizer.encode("English to German"), tokenizer.eos]
    refuses(DataError, "row '7' has no target_language", prompt.whole, {"id": "7", "source_language": "en"}, 1)


@pytest.mark.parametrize("prompt", [["a", "</s>"], ["<de>", "<de>"], ["<de>", "{text}"]])
def test_a_prompt_has_the_sound_once_and_no_text(prompt):
    tokenizer = small.tokenizer(["a b c"])
    refuses(UsageError, "has it, <de>, once", SpokenPrompt, prompt=prompt, tokenizer=tokenizer, sound="<de>")


def test_code_is_refused_in_parts_of_a_configuration_as_well():
    inner = {"audio_config": {"auto_map": {"AutoModel": "evil.Model"}}}
    refuses(UsageError, "config: audio_config: auto_map is refused", check_config, inner, "config")
    kept = plain({"model_type": "a", "_attn_implementation": "x", "part": {"attn_implementation": "y", "width": 1}})
    assert kept == {"model_type": "a", "part": {"width": 1}}


def test_features_of_another_rate_or_with_code_are_refused():
    refuses(DataError, "sampling_rate is 8000", LibraryFeatures, settings={"sampling_rate": 8000})
    refuses(UsageError, "auto_map is refused", LibraryFeatures, settings={"auto_map": {"x": "y"}})


def test_an_encoder_decoder_reads_something_and_speech_by_features():
    for reads in ([], ["speech"], ["target"]):
        refuses(UsageError, "reads speech, by its features, or source", EncoderDecoderModel, config={}, reads=reads)
