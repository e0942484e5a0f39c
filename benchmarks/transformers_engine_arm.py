"""An arm of benchmarks/transformers_engine.py: the engine's search, or the library's `generate`, over one module."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import transformers

from benchmarks.worker import serve
from dragoman.exchange.transformers_engine.encoder_decoder import EncoderDecoderModel
from dragoman.exchange.transformers_engine.library_features import LibraryFeatures
from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from dragoman.shared.search import BeamSearch, Rules

PADDING, END, TAG, FIRST_WORD = 0, 3, 4, 5
Outputs = Callable[[bool], tuple[list[list[int]], list[float]]]


def model_of(work: dict[str, Any]) -> EncoderDecoderModel:
    """Return a model with random weights, the same in every process."""
    width, layers, heads = work["width"], work["layers"], max(1, work["width"] // 64)
    sizes: dict[str, Any] = {"hidden_size": width, "vocab_size": work["vocabulary"], "model_type": "seamless_m4t_v2"}
    for side in ("encoder", "decoder", "speech_encoder"):
        sizes |= {f"{side}_layers": layers, f"{side}_attention_heads": heads}
    sizes |= {"encoder_ffn_dim": 4 * width, "decoder_ffn_dim": 4 * width, "speech_encoder_intermediate_size": 4 * width}
    torch.manual_seed(1)
    speech = work["kind"] == "speech"
    features = LibraryFeatures(settings={"feature_extractor_type": "SeamlessM4TFeatureExtractor"}) if speech else None
    return EncoderDecoderModel(config=sizes, reads=["speech" if speech else "source"], features=features).eval()


def batch_of(work: dict[str, Any]) -> Batch:
    """Return sentences of at most ``length`` tokens, or sounds of at most so many fifths of a second."""
    draw = torch.Generator().manual_seed(2)
    longest = work["length"]
    sizes = torch.randint(longest - longest // 5, longest + 1, (work["sentences"],), generator=draw).tolist()
    if work["kind"] == "speech":
        return Batch({"speech": Padded.from_sequences([0.1 * torch.randn(3200 * n, generator=draw) for n in sizes])})
    rows = [torch.randint(FIRST_WORD, work["vocabulary"], (size,), generator=draw) for size in sizes]
    return Batch({"source": Padded.from_sequences(rows, padding=PADDING)})


def engine(model: EncoderDecoderModel, batch: Batch, work: dict[str, Any]) -> Outputs:
    """Return what searches through the engine: outputs of a fixed length and an end symbol that costs nothing."""
    size = work["output"]
    rules = Rules(maximum_length_extra=size, minimum_length=size, start_symbols=2, forced_free=True)
    search = BeamSearch(beam=work["beam"], rules=rules)
    prefix = Padded.from_sequences([torch.tensor([END, TAG])] * len(batch))

    def outputs(checked: bool) -> tuple[list[list[int]], list[float]]:
        found = search.search(model, batch, prefix=prefix, end=END, padding=PADDING)
        return [best.tokens for [best] in found], [best.score for [best] in found]

    return outputs


def generate(model: EncoderDecoderModel, batch: Batch, work: dict[str, Any]) -> Outputs:
    """Return the library's own search for the same outputs."""
    size, beam = work["output"], work["beam"]
    options: dict[str, Any] = {
        "num_beams": beam,
        "early_stopping": True,
        "do_sample": False,
        "forced_eos_token_id": END,
    }
    options |= {"max_new_tokens": size + 1, "min_new_tokens": size, "return_dict_in_generate": True}
    options |= {"suppress_tokens": [PADDING]}
    starts = torch.tensor([[END, TAG]] * len(batch))
    library: Any = model.lm
    if work["kind"] == "speech":
        assert model.features is not None
        library = transformers.SeamlessM4Tv2ForSpeechToText(model.lm.config)
        for part in ("shared", "speech_encoder", "text_decoder", "lm_head"):
            setattr(library, part, getattr(model.lm, part))
        library.eval()

    def outputs(checked: bool) -> tuple[list[list[int]], list[float]]:
        if work["kind"] == "speech":
            heard = model.features(batch["speech"]) if model.features else {}
            found = library.generate(**heard, decoder_input_ids=starts, output_scores=checked, **options)
        else:
            text = batch["source"]
            given = {"input_ids": text.values, "attention_mask": text.mask.long()}
            found = library.generate(**given, decoder_input_ids=starts, output_scores=checked, **options)
        return found.sequences[:, 2:].tolist(), found.sequences_scores.tolist() if checked else []

    return outputs


def main() -> None:
    """Serve the arm that the command line names."""
    name, work = sys.argv[1], json.loads(sys.argv[2])
    arm = {"engine": engine, "generate": generate}[name]

    def setup() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
        transformers.logging.set_verbosity_error()
        model, batch = model_of(work), batch_of(work)
        outputs = arm(model, batch, work)
        written = work["sentences"] * (work["output"] + 1)

        def repeat() -> dict[str, Any]:
            with torch.inference_mode():
                outputs(False)  # generate keeps the scores of all steps only if it has to give them
            return {"work": written}

        with torch.inference_mode():
            tokens, scores = outputs(True)
        # Sounds of unequal length in one batch are others to the library's encoder, which lets padding into them.
        checks = {"score": sum(scores) / len(scores), "tokens": sum(map(sum, tokens))} if work["kind"] == "text" else {}
        return {"checks": checks, "versions": {"transformers": transformers.__version__}}, repeat

    serve(setup)


if __name__ == "__main__":
    main()
