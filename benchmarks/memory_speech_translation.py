"""The memory of fine-tuning XLS-R 300M below mBART-50 (or its decoder alone), counted tensor by tensor without a GPU.

    python benchmarks/memory_speech_translation.py [--seconds 15 --rows 4 --tokens 80] [--decoder-only]

A forward pass is run in bf16 autocast with tensors that have sizes and no content, and what autograd keeps of it is
added up, each storage once. With ``recompute`` that is what enters each layer; one layer at a time is computed again,
and the largest is added. Parameters and gradients are float32, moments as the optimiser has them; weights cast to bf16
are counted where autograd keeps them. A chunk of logits and its gradient are in the sum; what a GPU needs beyond it is
not: its allocator's slack and the CUDA context, usually 1 to 2 GB. What is marked fits into 24 GB with 2 to spare.

"LNA" is what learns in the recipe own/st_finetune; LoRA has rank 16 beside all linear maps of layers, and the new
convolutions and the norms learn. It needs the extras adapters and adam8bit.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import torch
from torch import Tensor, UntypedStorage, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions
from dragoman.shared.nn.spans import SpanMasking
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import Conv1dSubsampler
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import Translator
from dragoman.shared.nn.waveform import (
    ConvolutionalPositions,
    WaveformConvolutions,
    WaveformEmbedding,
    WaveformEncoder,
    WaveformNorm,
)
from dragoman.shared.objectives.cross_entropy import CHUNK, label_smoothed_cross_entropy
from dragoman.shared.padded import Padded
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.training.optimizer import Adam, Adam8bit
from dragoman.shared.training.tuning import LoRA, Selected

ROOM = 22e9


@dataclass(frozen=True)
class Sizes:
    """Sizes of the models: XLS-R 300M and mBART-50, whose layers have the same sizes."""

    width: int = 1024
    heads: int = 16
    feedforward: int = 4096
    vocabulary: int = 250_054
    speech_layers: int = 24
    encoder_layers: int = 12
    decoder_layers: int = 12

    def layer(self, *, memories: list[str] | None = None, activation: str = "gelu") -> Layer:
        """Build a layer of either model."""
        return Layer(
            width=self.width,
            heads=self.heads,
            feedforward=self.feedforward,
            memories=memories,
            activation=activation,
            dropout=0.1,
        )


def lna() -> Selected:
    """Return what learns in the recipe."""
    return Selected(parameters=Recipe.load("own/st_finetune").value("learning"))


def lora() -> LoRA:
    """Return adapters beside all linear maps of layers."""
    return LoRA(
        targets=r".*\.layers\.\d+\..*(queries_keys_values|queries|keys_values|output|inner|outer)",
        learn=r"(?!.*\.convolutions\.layers).*(subsampler|norm).*",
    )


#: What the table has: how it is called, whether layers are computed again, convolutions frozen, and the optimiser.
WAYS: list[tuple[str, bool, bool, Callable[[], Adam]]] = [
    ("everything learns", False, False, Adam),
    ("+ recompute", True, False, Adam),
    ("+ frozen convolutions", True, True, Adam),
    ("+ 8-bit moments", True, True, Adam8bit),
    ("LNA", False, True, lambda: Adam(tuning=lna())),
    ("LNA + recompute", True, True, lambda: Adam(tuning=lna())),
    ("LoRA", False, True, lambda: Adam(tuning=lora())),
    ("LoRA + recompute", True, True, lambda: Adam(tuning=lora())),
]


def translator(sizes: Sizes, *, recompute: bool, frozen: bool) -> Translator:
    """Build an encoder of waveforms, two convolutions of stride 2, and a translator of text."""
    speech = SpeechEmbedding(
        frontend=WaveformEncoder(
            embedding=WaveformEmbedding(
                convolutions=WaveformConvolutions(
                    bias=True, norm_each=True, gradient_scale=0.0 if frozen else 1.0, recompute=recompute
                ),
                positions=ConvolutionalPositions(width=sizes.width),
                normalisation=WaveformNorm(),
                masking=SpanMasking(width=sizes.width, probability=0.2, channel_probability=0.1),
                norm=False,
            ),
            encoder=Encoder(layer=sizes.layer(), layers=sizes.speech_layers, recompute=recompute),
        ),
        subsampler=Conv1dSubsampler(inputs=sizes.width, channels=sizes.width, width=sizes.width, kernels=[3, 3]),
    )
    target = TextEmbedding(
        vocabulary=sizes.vocabulary,
        width=sizes.width,
        padding=1,
        positions=LearnedPositions(width=sizes.width, length=1024, offset=2),
        norm=True,
    )
    return Translator(
        embeddings={"speech": speech},
        encoder=Encoder(layer=sizes.layer(activation="relu"), layers=sizes.encoder_layers, recompute=recompute),
        target_embedding=target,
        decoder=Decoder(
            layer=sizes.layer(memories=["source"], activation="relu"),
            layers=sizes.decoder_layers,
            recompute=recompute,
        ),
        projection=TiedProjection(embedding=target),
    )


def loss_of(model: Translator, speech: Padded, prefix: Padded, labels: Tensor) -> Tensor:
    """Return what one batch adds to the loss."""
    encoded = model.encoder(model.embeddings["speech"](speech))[0]
    states = model.decoder(model.target_embedding(prefix), {"source": encoded}).values
    return label_smoothed_cross_entropy(
        states.flatten(0, 1), model.projection, labels.flatten(), label_smoothing=0.1
    ).loss


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


def choose(model: Translator, optimizer: Adam) -> None:
    """Let the optimiser's settings choose what learns; tensors without content cannot be moved, and need not be."""
    with patch.object(nn.Module, "to", lambda module, *_, **__: module):
        optimizer.groups(model)


def count(model: Translator, optimizer: Adam, *, rows: int, samples: int, tokens: int) -> dict[str, int]:
    """Return bytes by kind, for a model in which the optimiser's settings have chosen what learns."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    speech = Padded(torch.zeros(rows, samples), torch.full((rows,), samples))
    prefix = Padded(torch.zeros(rows, tokens, dtype=torch.int64), torch.full((rows,), tokens))
    matrix, elements = model.projection.weight, rows * tokens
    return {
        "parameters": sum(parameter.numel() * 4 for parameter in model.parameters()),
        "gradients": sum(parameter.numel() * 4 for parameter in learning),
        "moments": sum(optimizer.state_bytes(parameter) for parameter in learning),
        "activations": kept(lambda: loss_of(model, speech, prefix, prefix.values), model.parameters())
        # the loss has gradients at once: of the states, and of the matrix if it learns
        + 4 * (elements * model.decoder.width + (matrix.numel() if matrix.requires_grad else 0)),
        "one layer again": max(again(model, rows, samples, tokens)) if model.encoder.recompute else 0,
        # in bf16, where their gradient comes to stand, their probabilities, and a copy of the matrix
        "logits": min(CHUNK, elements * len(matrix)) * (2 + 4) + matrix.numel() * 2,
    }


def again(model: Translator, rows: int, samples: int, tokens: int) -> Iterator[int]:
    """Yield what a layer of each kind keeps while it is computed again."""
    convolutions = model.embeddings["speech"].frontend.embedding.convolutions
    length, channels = samples, 1
    for one in convolutions.layers if convolutions.gradient_scale else ():
        values = torch.zeros(rows, channels, length, requires_grad=True)
        yield kept(partial(one, values, torch.full((rows,), length)), one.parameters())
        length, channels = (length - one.kernel) // one.stride + 1, one.convolution.out_channels
    frames, width = samples // 320, model.decoder.width
    states = Padded(torch.zeros(rows, frames, width, requires_grad=True), torch.full((rows,), frames))
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
    sizes = Sizes(encoder_layers=1 if arguments.decoder_only else 12)
    shape = {"rows": arguments.rows, "samples": int(arguments.seconds * 16000), "tokens": arguments.tokens}
    print(f"{arguments.rows} rows of {arguments.seconds} s and {arguments.tokens} tokens; GB (10^9 bytes)\n")
    header: list[str] = []
    for name, recompute, frozen, make in WAYS:
        with FakeTensorMode(allow_non_fake_inputs=True):
            model = translator(sizes, recompute=recompute, frozen=frozen).train()
            optimizer = make()
            choose(model, optimizer)
            found = count(model, optimizer, **shape)
        if not header:
            header = ["", *found, "sum", "in 24 GB"]
            print(f"| {' | '.join(header)} |\n|---|{'---:|' * (len(header) - 1)}")
        total = sum(found.values())
        numbers = [f"{size / 1e9:.2f}" for size in found.values()]
        print(f"| {' | '.join([name, *numbers, f'{total / 1e9:.1f}', 'yes' if total <= ROOM else 'no'])} |", flush=True)


if __name__ == "__main__":
    main()
