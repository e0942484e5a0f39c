"""fairseq's LSTM translator of speech (s2t_berard) computes with its weights what st/berard.py computes with them.

No importer reads its checkpoints: the weights are filled in by name.
"""

import json
import math
import re

import pytest
import torch
from safetensors.torch import load_file

from dragoman import BeamSearch, Rules, System
from dragoman.exchange.fairseq.fairseq_s2t import DataConfig, speech_system
from dragoman.exchange.loaded import load_renamed
from dragoman.exchange.unpickling import read_checkpoint
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.fbank import Fbank
from dragoman.shared.nn.heads import OutputProjection
from dragoman.shared.nn.recurrent import LstmEncoder
from dragoman.shared.nn.recurrent_translator import RecurrentTranslator
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.objectives.cross_entropy import label_smoothed_cross_entropy
from dragoman.shared.padded import Padded
from dragoman.st.berard import ChainedDecoder, ImageSubsampler
from tests.parity.fairseq_cases import FILES, HERE, check_gradients

FOLDER = HERE / "s2t_lstm"
#: Patterns of names here, and the names there.
NAMES = {
    r"embeddings\.speech\.subsampler\.maps\.(\d+)": r"encoder.input_layers.\1.0",
    r"embeddings\.speech\.subsampler\.convolutions": "encoder.conv_layers",
    r"encoder\.layers\.(\d+)\.(\w+)_l0(\w*)": r"encoder.lstm.\2_l\1\3",
    r"target_embedding\.tokens": "decoder.embed_tokens",
    r"decoder\.of_memory": "decoder.attention.encoder_proj",
    r"decoder\.of_state": "decoder.attention.decoder_proj",
    r"decoder\.score": "decoder.attention.to_scores",
    r"decoder\.output": "decoder.deep_output_layer",
    r"projection": "decoder.output_projection",
}


def theirs(name: str) -> list[str]:
    for ours, there in NAMES.items():
        if re.match(ours, name):
            return [re.sub(f"^{ours}", there, name)]
    return [name]


def translator() -> RecurrentTranslator:
    subsampler = ImageSubsampler(inputs=80, layers=[22, 20], channels=4)
    return RecurrentTranslator(
        embeddings={
            "speech": SpeechEmbedding(
                frontend=Fbank(bins=80),
                normalisation=DataConfig(FOLDER / "config.yaml").normalisation(),
                subsampler=subsampler,
                scaled=False,
            )
        },
        encoder=LstmEncoder(inputs=subsampler.width, width=14, layers=2, bidirectional=True),
        target_embedding=TextEmbedding(vocabulary=40, width=10, padding=1, scaled=False),
        decoder=ChainedDecoder(inputs=10, width=14, layers=3, attention=12, outputs=16),
        projection=OutputProjection(width=16, vocabulary=40, bias=True),
    )


@pytest.fixture
def system(tmp_path) -> System:
    """Return a system with fairseq's weights, saved and loaded again."""
    model = translator()
    tensors = read_checkpoint(FOLDER / "checkpoint.pt")["model"]
    load_renamed(model, tensors, {name: theirs(name) for name in model.state_dict()}, "checkpoint.pt").check()
    segmenter = DataConfig(FOLDER / "config.yaml").segmenter(None)
    symbols = {symbol: symbol for symbol in FIRST}
    tokenizer = VocabularyTokenizer(segmenter=segmenter, vocabulary=str(FOLDER / "dict.txt"), symbols=symbols)
    speech_system(model, tokenizer, {}, ["en"], ["de"], "checkpoint.pt").save(tmp_path / "model")
    return System.load(tmp_path / "model")


def test_states_logits_loss_and_gradients(system, compared):
    compared.named("fairseq", "LSTM translator of speech (s2t_berard)")
    model, numbers = system.model, load_file(FOLDER / "expected.safetensors")

    def given(kind: str) -> list[torch.Tensor]:
        return [numbers[f"{kind}.{row}"] for row in range(len(FILES))]

    features = Padded.from_sequences(given("features"), padding=0.5)
    encoding = model.encode_embedded(model.embeddings["speech"].embed(features))
    for states, expected in zip(encoding.memories["source"].rows(), given("states"), strict=True):
        compared.close("states", states, expected, tolerance=1e-5)
    end = torch.tensor([2])
    prefix = Padded.from_sequences([torch.cat([end, target]) for target in given("target")], padding=1)
    states = torch.cat(Padded(model.decode(prefix, encoding), prefix.lengths).rows())
    compared.close("logits", model.project(states), torch.cat(given("logits")), tolerance=1e-5)
    labels = torch.cat([torch.cat([target, end]) for target in given("target")])
    sums = label_smoothed_cross_entropy(states, model.projection, labels, label_smoothing=0.1)
    compared.close("loss", sums.loss / len(labels), numbers["loss"] / len(labels), tolerance=1e-5)
    sums.loss.backward()
    check_gradients(model, theirs, numbers, compared)
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_beam_search_finds_what_fairseq_generate_found(system, compared):
    compared.named("fairseq", "LSTM translator of speech (s2t_berard)")
    rules = Rules(maximum_length_ratio=0.0, maximum_length_extra=30, start_symbols=1)
    generated = json.loads((FOLDER / "generated.json").read_text(encoding="utf-8"))
    tokenizer = system.output.tokenizer
    for batch_size in (1, 4):
        options = {"search": BeamSearch(beam=5, n_best=5, rules=rules), "keep_silence": True}
        found = system.hypotheses(list(map(str, FILES)), batch_size=batch_size, **options)
        for hypotheses, expected in zip(found, generated, strict=True):
            symbols = [[tokenizer.symbol(token) for token in h.tokens] for h in hypotheses]
            pieces = [
                " ".join(one for one in row if one not in ("<s>", "</s>")) for row in symbols
            ]  # it prints neither
            expected = expected["hypotheses"]
            compared.same("hypotheses", pieces, [one["pieces"] for one in expected])
            scores = [h.score / math.log(2) for h in hypotheses]
            compared.close("scores", scores, [one["score"] for one in expected])
    assert compared.equal["hypotheses"] == 2 * 5 * len(FILES)
