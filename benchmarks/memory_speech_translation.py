"""The memory of fine-tuning XLS-R 300M below mBART-50 (or its decoder alone), counted tensor by tensor without a GPU.

    python benchmarks/memory_speech_translation.py [--seconds 15 --rows 4 --tokens 80] [--decoder-only]

A forward pass is run in bf16 autocast with tensors that have sizes and no content, and what autograd keeps of it is
added up, each storage once. With ``recompute`` that is what enters each layer; one layer at a time is computed again,
and the largest is added. Parameters, gradients and Adam's two moments are float32, 16 bytes a parameter that learns;
weights cast to bf16 are counted where autograd keeps them. A chunk of logits and its gradient are in the sum; what a
GPU needs beyond it is not: its allocator's slack and the CUDA context, usually 1 to 2 GB.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from torch import Tensor, UntypedStorage
from torch._subclasses.fake_tensor import FakeTensorMode

from shared.nn.embeddings import TextEmbedding
from shared.nn.heads import TiedProjection
from shared.nn.positions import LearnedPositions
from shared.nn.spans import SpanMasking
from shared.nn.speech import SpeechEmbedding
from shared.nn.subsampler import Conv1dSubsampler
from shared.nn.transformer import Decoder, Encoder, Layer
from shared.nn.translator import Translator
from shared.nn.waveform import (
    ConvolutionalPositions,
    WaveformConvolutions,
    WaveformEmbedding,
    WaveformEncoder,
    WaveformNorm,
)
from shared.objectives.cross_entropy import CHUNK, label_smoothed_cross_entropy
from shared.padded import Padded

WIDTH, HEADS, FEEDFORWARD, VOCABULARY = 1024, 16, 4096, 250_054


def layer(*, memories: list[str] | None = None, activation: str = "gelu") -> Layer:
    """Build a layer of either model; their sizes are the same."""
    return Layer(
        width=WIDTH, heads=HEADS, feedforward=FEEDFORWARD, memories=memories, activation=activation, dropout=0.1
    )


def translator(*, recompute: bool, frozen: bool, encoder_layers: int) -> Translator:
    """Build XLS-R 300M, two convolutions of stride 2, and mBART-50."""
    speech = SpeechEmbedding(
        frontend=WaveformEncoder(
            embedding=WaveformEmbedding(
                convolutions=WaveformConvolutions(
                    bias=True, norm_each=True, gradient_scale=0.0 if frozen else 1.0, recompute=recompute
                ),
                positions=ConvolutionalPositions(width=WIDTH),
                normalisation=WaveformNorm(),
                masking=SpanMasking(width=WIDTH, probability=0.2, channel_probability=0.1),
                norm=False,
            ),
            encoder=Encoder(layer=layer(), layers=24, recompute=recompute),
        ),
        subsampler=Conv1dSubsampler(inputs=WIDTH, channels=WIDTH, width=WIDTH, kernels=[3, 3]),
    )
    target = TextEmbedding(
        vocabulary=VOCABULARY,
        width=WIDTH,
        padding=1,
        positions=LearnedPositions(width=WIDTH, length=1024, offset=2),
        norm=True,
    )
    return Translator(
        embeddings={"speech": speech},
        encoder=Encoder(layer=layer(activation="relu"), layers=encoder_layers, recompute=recompute),
        target_embedding=target,
        decoder=Decoder(layer=layer(memories=["source"], activation="relu"), layers=12, recompute=recompute),
        projection=TiedProjection(embedding=target),
    )


def loss_of(model: Translator, speech: Padded, prefix: Padded, labels: Tensor) -> Tensor:
    """Return what one batch adds to the loss."""
    encoded = model.encoder(model.embeddings["speech"](speech))[0]
    states = model.decoder(model.target_embedding(prefix), {"source": encoded}).values
    return label_smoothed_cross_entropy(states.flatten(0, 1), model.projection, labels.flatten(), smoothing=0.1).loss


def kept(run: Callable[[], Tensor], parameters: Iterable[Tensor]) -> int:
    """Return the bytes that autograd keeps of a forward pass, without the parameters themselves."""
    own = {parameter.untyped_storage()._cdata for parameter in parameters}
    storages: dict[int, UntypedStorage] = {}  # held, so that no address is used again

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            storages[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), autocast():
        run()
    return sum(storage.nbytes() for storage in storages.values())


def autocast() -> torch.autocast:
    """Return bf16 autocast."""
    return torch.autocast("cpu", dtype=torch.bfloat16)


def count(model: Translator, rows: int, seconds: float, tokens: int) -> dict[str, int]:
    """Return bytes by kind."""
    samples = int(seconds * 16000)
    speech = Padded(torch.zeros(rows, samples), torch.full((rows,), samples))
    prefix = Padded(torch.zeros(rows, tokens, dtype=torch.int64), torch.full((rows,), tokens))
    sizes = {"parameters": sum(p.numel() * 4 for p in model.parameters())}
    sizes["gradients and moments"] = sum(p.numel() * 12 for p in model.parameters() if p.requires_grad)
    sizes["activations"] = kept(lambda: loss_of(model, speech, prefix, prefix.values), model.parameters())
    sizes["one layer again"] = max(again(model, rows, samples, tokens)) if model.encoder.recompute else 0
    sizes["logits"] = CHUNK * (2 + 4)  # in bf16, where their gradient comes to stand, and their probabilities
    return sizes


def again(model: Translator, rows: int, samples: int, tokens: int) -> Iterator[int]:
    """Yield what a layer of each kind keeps while it is computed again."""
    convolutions = model.embeddings["speech"].frontend.embedding.convolutions
    length, channels = samples, 1
    for one in convolutions.layers if convolutions.gradient_scale else ():
        values = torch.zeros(rows, channels, length, requires_grad=True)
        yield kept(partial(one, values, torch.full((rows,), length)), one.parameters())
        length, channels = (length - one.kernel) // one.stride + 1, one.convolution.out_channels
    states = Padded(torch.zeros(rows, samples // 320, WIDTH, requires_grad=True), torch.full((rows,), samples // 320))
    memory = Padded(states.values[:, ::4], states.lengths // 4)
    for stack, x, memories in (
        (model.embeddings["speech"].frontend.encoder, states, {}),
        (model.encoder, memory, {}),
        (model.decoder, Padded(states.values[:, :tokens], states.lengths.clamp(max=tokens)), {"source": memory}),
    ):
        one = stack.layers[0]
        given = {"causal": True, "memories": memories} if memories else {"mask": x.mask}
        yield kept(partial(one, x.values, **given), one.parameters())


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--tokens", type=int, default=80)
    parser.add_argument("--decoder-only", action="store_true", help="one layer instead of mBART's encoder")
    arguments = parser.parse_args()
    print(f"{arguments.rows} rows of {arguments.seconds} s and {arguments.tokens} tokens; GB (10^9 bytes)")
    for recompute, frozen in ((False, False), (False, True), (True, False), (True, True)):
        with FakeTensorMode(allow_non_fake_inputs=True):
            layers = 1 if arguments.decoder_only else 12
            model = translator(recompute=recompute, frozen=frozen, encoder_layers=layers).train()
            sizes = count(model, arguments.rows, arguments.seconds, arguments.tokens)
        millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
        told = ", ".join(f"{kind} {size / 1e9:.2f}" for kind, size in sizes.items())
        print(f"{recompute=!s:5} {frozen=!s:5} {millions:.0f} M parameters: {sum(sizes.values()) / 1e9:.1f} = {told}")


if __name__ == "__main__":
    main()
