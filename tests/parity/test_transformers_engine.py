"""Encoder-decoders of transformers: the same ids, states and outputs as there, from tiny random weights.

Outputs equal those of ``generate(early_stopping=True)`` wherever these end before the limit. At the limit the rules
differ: fairseq's, which are ours, force the end symbol, and there the longest outputs compete as they are.
"""

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from dragoman import DataError, UsageError
from dragoman.exchange.importing import import_model
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.rescoring import score_rows
from dragoman.shared.search import BeamSearch, GreedySearch, Rules
from dragoman.shared.systems.system import System
from tests.small import refuses

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

SENTENCES = ["the cat sat on the mat", "a dog", "good morning to all of you, said the old man", "yes"]
SECONDS = [1.31, 0.4, 2.02, 0.77]
TAGS = ["__eng__", "__deu__", "__fra__"]
CODES = {"en": "eng", "de": "deu", "fr": "fra"}
SIZES = {"vocab_size": 300, "hidden_size": 32, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
SIZES |= {f"{side}_{name}": 2 for side in ("encoder", "decoder", "speech_encoder") for name in ("layers",)}
SIZES |= {
    f"{side}_attention_heads": 4 for side in ("encoder", "decoder", "speech_encoder", "t2u_encoder", "t2u_decoder")
}
SIZES |= {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "speech_encoder_intermediate_size": 64}
SPEAKER = {"t2u_encoder_layers": 1, "t2u_encoder_ffn_dim": 16, "t2u_decoder_layers": 1, "t2u_decoder_ffn_dim": 16}
SPEAKER |= {"t2u_vocab_size": 20, "char_vocab_size": 20, "upsample_initial_channel": 32, "unit_hifi_gan_vocab_size": 20}
SPEAKER |= {"unit_embed_dim": 8, "lang_embed_dim": 4, "spkr_embed_dim": 4, "t2u_variance_predictor_embed_dim": 32}


@pytest.fixture(scope="module", autouse=True)
def calm():
    """Keep the library from telling at length."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def noise(seed=3):
    """Sounds of unequal lengths, (N,) float32 each."""
    rng = np.random.default_rng(seed)
    return [(0.1 * rng.standard_normal(round(16000 * seconds))).astype(np.float32) for seconds in SECONDS]


def louder(model, end):
    """Make random weights large enough for outputs that differ, some of which end."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=1.0 if "embed" in name or "shared" in name else 0.4)
        model.get_output_embeddings().weight[end] *= 4


def pieces(special, size):
    """Train pairs of letters, behind some symbols."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(SENTENCES * 5, trainers.BpeTrainer(vocab_size=size, special_tokens=special))
    content = json.loads(tokenizer.to_str())["model"]
    return content["vocab"], [tuple(pair) for pair in content["merges"]]


def seamless(folder):
    """Write a tiny SeamlessM4T v2 with all of its parts, as the library does."""
    vocabulary, merges = pieces(["<pad>", "<unk>", "<s>", "</s>"], 200)
    tokenizer = transformers.SeamlessM4TTokenizer(vocab=vocabulary, merges=merges, additional_special_tokens=TAGS)
    extractor = transformers.SeamlessM4TFeatureExtractor()
    transformers.SeamlessM4TProcessor(extractor, tokenizer).save_pretrained(folder)
    torch.manual_seed(7)
    model = transformers.SeamlessM4Tv2Model(transformers.SeamlessM4Tv2Config(**SIZES | SPEAKER)).eval()
    louder(model, 3)
    numbers = {tag.strip("_"): tokenizer.convert_tokens_to_ids(tag) for tag in TAGS}
    model.save_pretrained(folder)
    changed(folder, "generation_config.json", text_decoder_lang_to_code_id=numbers, decoder_start_token_id=3)
    return folder


def changed(folder, name, **values):
    """Change settings in a file of a folder."""
    path = folder / name
    kept = json.loads(path.read_text()) | values
    kept.pop("_from_model_config", None)
    path.write_text(json.dumps({name: value for name, value in kept.items() if value is not None}))


class Theirs:
    """A model of the library, and what it is given."""

    def __init__(self, folder):
        self.folder = folder
        self.processor = transformers.AutoProcessor.from_pretrained(folder)
        self.end = 3

    def model(self, speech):
        kind = transformers.SeamlessM4Tv2ForSpeechToText if speech else transformers.SeamlessM4Tv2ForTextToText
        return kind.from_pretrained(self.folder).eval()

    def inputs(self, item):
        if isinstance(item, str):
            return self.processor(text=item, src_lang="eng", return_tensors="pt")
        return self.processor(audio=item, sampling_rate=16000, return_tensors="pt")

    def options(self, code):
        return {"tgt_lang": CODES[code]}

    def start(self, code):
        return [3, self.processor.tokenizer.convert_tokens_to_ids(f"__{CODES[code]}__")]


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    folder = seamless(tmp_path_factory.mktemp("seamless"))
    out = tmp_path_factory.mktemp("out") / "model"
    report = import_model(folder, out, engine="transformers")
    assert not report.missing and not report.unexpected and not report.reshaped
    assert all(name.startswith(("t2u_model.", "vocoder.")) for name in report.elsewhere)
    return Theirs(folder), System.load(out)


def at(system, speech):
    return system.for_task(reads=["speech" if speech else "source"])


def given(speech):
    return noise() if speech else SENTENCES


def options(speech):
    common = {"source_language": "en", "target_language": "de", "keep_silence": True}
    return common | ({"sample_rate": 16000} if speech else {})


@torch.no_grad()
def mean(model, inputs, start, output):
    scores = model(**inputs, decoder_input_ids=torch.tensor([start + output])).logits[0].log_softmax(-1)
    return float(sum(scores[len(start) + place - 1, token] for place, token in enumerate(output)) / len(output))


#: At the limit the end symbol is forced, and costs nothing, in both.
LIMIT = 12
RULES = Rules(maximum_length_extra=LIMIT, minimum_length=0, forced_free=True)


@torch.no_grad()
def generated(theirs, speech, item, code, beam):
    """Return the tokens that the library writes, without the start, and their score."""
    start = theirs.start(code)
    asked = {"max_new_tokens": LIMIT + 1, "num_beams": beam, "do_sample": False, "early_stopping": beam > 1 or None}
    found = theirs.model(speech).generate(
        **theirs.inputs(item),
        **theirs.options(code),
        **asked,
        forced_eos_token_id=theirs.end,
        return_dict_in_generate=True,
        output_scores=True,
    )
    ids = found.sequences[0].tolist()
    assert ids[: len(start)] == start
    new = ids[len(start) :]
    new = new[: new.index(theirs.end) + 1]
    if beam > 1:
        return new, float(found.sequences_scores[0])
    scores = [score[0].log_softmax(-1)[token] for score, token in zip(found.scores, new, strict=True)]
    return new, float(sum(scores) / len(new))


@pytest.mark.parametrize("speech", [True, False])
@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_are_those_of_generate(imported, beam, speech):
    theirs, system = imported
    search = GreedySearch(rules=RULES) if beam == 1 else BeamSearch(beam=beam, rules=RULES)
    found = at(system, speech).hypotheses(given(speech), search=search, **options(speech))
    for item, [best] in zip(given(speech), found, strict=True):
        tokens, score = generated(theirs, speech, item, "de", beam)
        assert best.tokens == tokens
        assert best.score == pytest.approx(score, abs=1e-4)
    assert len({tuple(best.tokens) for [best] in found}) >= 2
