"""Makes the models and inputs that benchmarks/translation compares: random weights once, in every toolkit's own form.

    python -m benchmarks.translation.models --out FOLDER

``text`` is fairseq's ``transformer`` with layers that normalise what enters them (6+6, 512/2048, 32,000 symbols),
``speech`` is ``s2t_transformer_s`` (12+6, 256/2048, 8,000 symbols). Each is written as a checkpoint of fairseq, read by
``dragoman import``, and written again by ``dragoman export`` (for CTranslate2 if it is installed); transformers'
Speech2Text, which nothing exports to, is filled by name from the checkpoint itself.

Models of random weights hardly ever end an output. These do, at a length that follows the input's, because one feature
is a clock: in encoder and decoder nothing but the position writes to it, the last layer of the decoder subtracts what
it reads of it in the source (which grows with the source's length), and it alone makes the logit of the end symbol,
which so rises by about one a step. Nothing but weights is needed for that. Output vectors are four times as large as
usual, so that distributions are as sharp as a trained model's, and no two best candidates as close as roundings.
"""

from __future__ import annotations

import argparse
import json
from argparse import Namespace
from dataclasses import dataclass
from importlib.util import find_spec
from math import pi
from pathlib import Path

import numpy as np
import torch
from sentencepiece import sentencepiece_model_pb2
from torch import Tensor

from dragoman.exchange import ctranslate2
from dragoman.exchange.huggingface import hf_export
from dragoman.exchange.importing import import_model

PADDING, END = 1, 2
SENTENCES, RECORDINGS = 1000, 200
RATE = 16000
SHARPNESS = 4.0


@dataclass(frozen=True)
class Shape:
    """A model's sizes, and how its clock goes.

    Attributes:
        vocabulary: V.
        width: D.
        inner: F.
        layers: of encoder and decoder.
        clocks: the features of encoder and decoder that are clocks, slow enough for the longest input and output.
        entering: mean and deviation of what enters the last normalisation of encoder and decoder, as measured.
        ratio: tokens of the output for each element of the encoder's output.
        attention_heads: of all attentions.

    """

    vocabulary: int
    width: int
    inner: int
    layers: tuple[int, int]
    clocks: tuple[int, int]
    entering: tuple[tuple[float, float], tuple[float, float]]
    ratio: float
    attention_heads: int

    def speed(self, side: int) -> float:
        """Return by how much a clock goes forward in an element: the frequency of that feature's sinusoid."""
        return float(10000 ** (-self.clocks[side] / (self.width // 2 - 1)))


TEXT = Shape(32000, 512, 2048, (6, 6), (132, 132), ((0.29, 2.32), (0.32, 3.57)), 1.0, 8)
SPEECH = Shape(8000, 256, 2048, (12, 6), (92, 66), ((0.24, 2.86), (0.54, 3.0)), 0.18, 4)


def linear(name: str, inputs: int, outputs: int) -> dict[str, Tensor]:
    """Return a random linear map of Xavier's size, with a small bias."""
    weight = torch.empty(outputs, inputs)
    torch.nn.init.xavier_uniform_(weight)
    return {f"{name}.weight": weight, f"{name}.bias": torch.randn(outputs) * 0.02}


def norm(name: str, width: int) -> dict[str, Tensor]:
    """Return a normalisation."""
    return {f"{name}.weight": torch.ones(width), f"{name}.bias": torch.zeros(width)}


def stack(shape: Shape, side: str, inside: str = "layers") -> dict[str, Tensor]:
    """Return the layers of "encoder" or "decoder", none of which writes to the clock."""
    number = ("encoder", "decoder").index(side)
    width, clock = shape.width, shape.clocks[number]
    tensors = norm(f"{side}.layer_norm", width)
    for layer in range(shape.layers[number]):
        place = f"{side}.{inside}.{layer}"
        for attention in ("self_attn", "encoder_attn")[: number + 1]:
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                tensors |= linear(f"{place}.{attention}.{part}", width, width)
            tensors |= norm(f"{place}.{attention}_layer_norm", width)
            silence(tensors, f"{place}.{attention}.out_proj", clock)
        tensors |= linear(f"{place}.fc1", width, shape.inner) | linear(f"{place}.fc2", shape.inner, width)
        tensors |= norm(f"{place}.final_layer_norm", width)
        silence(tensors, f"{place}.fc2", clock)
    return tensors


def silence(tensors: dict[str, Tensor], name: str, clock: int) -> None:
    """Let a linear map write nothing to the clock."""
    tensors[f"{name}.weight"][clock] = 0
    tensors[f"{name}.bias"][clock] = 0


def embedding(shape: Shape, clock: int) -> Tensor:
    """Return token vectors, without the padding symbol's and a part on the clock."""
    weight = torch.randn(shape.vocabulary, shape.width) * shape.width**-0.5
    weight[PADDING] = 0
    weight[:, clock] = 0
    return weight


def decoder(shape: Shape) -> dict[str, Tensor]:
    """Return the decoder, with its clock at work."""
    hidden, shown = shape.clocks
    tensors = stack(shape, "decoder") | {"decoder.embed_tokens.weight": embedding(shape, shown)}
    place, reader = f"decoder.layers.{shape.layers[1] - 1}.encoder_attn", 0
    size = shape.width // shape.attention_heads
    tensors[f"{place}.q_proj.weight"][:size] = tensors[f"{place}.q_proj.bias"][:size] = 0  # this head sees the mean
    tensors[f"{place}.v_proj.weight"][reader] = 0
    tensors[f"{place}.v_proj.weight"][reader, hidden] = 1
    tensors[f"{place}.v_proj.bias"][reader] = 0
    # A clock's mean over S elements is half of what it shows at the last.
    (mean_there, deviation_there), (mean, deviation) = shape.entering
    exchange = 2 * shape.ratio * shape.speed(1) / shape.speed(0)
    tensors[f"{place}.out_proj.weight"][shown, reader] = -exchange * deviation_there
    output = torch.randn(shape.vocabulary, shape.width) * SHARPNESS * shape.width**-0.5
    output[:, shown] = 0
    output[END] = 0
    output[END, shown] = deviation / shape.speed(1)
    tensors["decoder.layer_norm.bias"][shown] = (
        4 * SHARPNESS * shape.speed(1) + mean - exchange * mean_there
    ) / deviation
    return tensors | {"decoder.output_projection.weight": output}


def settings(shape: Shape, **more: object) -> Namespace:
    """Return fairseq's settings."""
    values: dict[str, object] = {"activation_fn": "relu", "dropout": 0.0, "data": ".", "source_lang": "en"}
    values |= {"target_lang": "de", "max_source_positions": 6000, "max_target_positions": 1024}
    for side, layers in zip(("encoder", "decoder"), shape.layers, strict=True):
        sizes = {"embed_dim": shape.width, "ffn_embed_dim": shape.inner, "attention_heads": shape.attention_heads}
        sizes |= {"layers": layers, "normalize_before": True}
        values |= {f"{side}_{name}": size for name, size in sizes.items()}
    return Namespace(**values | more)


def write_checkpoint(folder: Path, tensors: dict[str, Tensor], given: Namespace, languages: list[str]) -> None:
    """Write what fairseq reads: the checkpoint, dictionaries, and a SentencePiece model of as many made-up words."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = len(tensors["decoder.embed_tokens.weight"])
    words = [f"▁word{number}" for number in range(vocabulary - 4)]
    for name in languages:
        (folder / name).write_text("".join(f"{word} 1\n" for word in words), encoding="utf-8")
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    for symbol, kind in (("<unk>", 2), ("<s>", 3), ("</s>", 3)):
        proto.pieces.add(piece=symbol, score=0.0, type=kind)
    for word in words:
        proto.pieces.add(piece=word, score=-10.0, type=1)
    proto.trainer_spec.model_type = 1
    proto.normalizer_spec.name = "identity"
    (folder / "spm.model").write_bytes(proto.SerializeToString())
    history = [{"criterion_name": "C", "optimizer_name": "O", "lr_scheduler_state": {}, "num_updates": 1}]
    content = {"args": given, "model": tensors, "optimizer_history": history, "extra_state": {"epoch": 1}}
    torch.save(content | {"last_optimizer_state": None}, folder / "checkpoint.pt")


def make_text(folder: Path) -> None:
    """Make the text model and its sources: as many tokens as news has, 24 in the median."""
    torch.manual_seed(1)
    tensors = stack(TEXT, "encoder") | {"encoder.embed_tokens.weight": embedding(TEXT, TEXT.clocks[0])}
    tensors |= decoder(TEXT)
    for side in ("encoder", "decoder"):  # buffers that fairseq saves
        tensors |= {f"{side}.version": torch.tensor([3.0]), f"{side}.embed_positions._float_tensor": torch.zeros(1)}
    given = settings(TEXT, arch="transformer", task="translation", share_decoder_input_output_embed=False)
    write_checkpoint(folder / "fairseq", tensors, given, ["dict.en.txt", "dict.de.txt"])
    rng = np.random.default_rng(1)
    lengths = np.clip(rng.lognormal(np.log(24), 0.5, SENTENCES), 4, 80).astype(int)
    sources = [[*rng.integers(4, TEXT.vocabulary, length - 1).tolist(), END] for length in lengths]
    (folder / "sources.json").write_text(json.dumps(sources) + "\n")
    import_model(folder / "fairseq", folder / "ours").check()
    if find_spec("ctranslate2"):
        for quantization in ("float32", "int8"):
            ctranslate2.export(folder / "ours", folder / f"ctranslate2_{quantization}", quantization=quantization)
    hf_export.export(folder / "ours", folder / "transformers")


def make_speech(folder: Path) -> None:
    """Make the speech model and its recordings: as long as MuST-C's, 5 seconds in the median."""
    torch.manual_seed(2)
    tensors = stack(SPEECH, "encoder", "transformer_layers") | decoder(SPEECH)
    for number, (inputs, outputs) in enumerate(((80, 1024), (512, 2 * SPEECH.width))):
        convolution = torch.nn.Conv1d(inputs, outputs, 5)
        name = f"encoder.subsample.conv_layers.{number}"
        tensors |= {f"{name}.{kind}": value.detach() for kind, value in convolution.named_parameters()}
    silence(tensors, "encoder.subsample.conv_layers.1", SPEECH.clocks[0])
    tensors |= {"decoder.version": torch.tensor([3.0])}
    for side in ("encoder", "decoder"):
        tensors |= {f"{side}.embed_positions._float_tensor": torch.zeros(1)}
    more = {"conv_kernel_sizes": "5,5", "conv_channels": 1024, "share_decoder_input_output_embed": False}
    given = settings(SPEECH, arch="s2t_transformer_s", task="speech_to_text", config_yaml="config.yaml", **more)
    write_checkpoint(folder / "fairseq", tensors, given, ["dict.txt"])
    (folder / "fairseq" / "config.yaml").write_text(
        "vocab_filename: dict.txt\ninput_feat_per_channel: 80\ninput_channels: 1\n"
        "transforms:\n  '*': [utterance_cmvn]\n"
        "bpe_tokenizer:\n  bpe: sentencepiece\n  sentencepiece_model: spm.model\n"
    )
    rng = np.random.default_rng(2)
    seconds = np.clip(rng.lognormal(np.log(5), 0.6, RECORDINGS), 0.8, 25)
    waveforms = [recording(rng, float(length)) for length in seconds]
    np.save(folder / "waveforms.npy", np.concatenate(waveforms))
    np.save(folder / "samples.npy", np.array([len(waveform) for waveform in waveforms]))
    import_model(folder / "fairseq", folder / "ours", source_languages=["en"], target_languages=["de"]).check()


def recording(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """Make a voice-like sound, (N,) int16: gliding harmonics that swell, and noise."""
    time = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * pi * np.cumsum(140 + 40 * np.sin(2 * pi * (0.5 + rng.random()) * time)) / RATE
    tones = sum(rng.random() / (1 + k) * np.sin(k * phase) for k in range(1, 20))
    swell = 0.6 + 0.4 * np.sin(2 * pi * 4 * time + rng.random())
    waveform = 0.2 * swell * tones + 0.004 * rng.standard_normal(len(time))
    return np.clip(waveform * 2**15, -(2**15), 2**15 - 1).astype(np.int16)


def main() -> None:
    """Make both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    make_text(folder / "text")
    make_speech(folder / "speech")


if __name__ == "__main__":
    main()
