"""The arm of benchmarks/translation that is transformers: what ``dragoman export`` wrote, or a Speech2Text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers

from benchmarks.translation.work import BEAM, END, LONGEST, Task, arguments, work


def speech_model(task: Task) -> tuple[Any, Any]:
    """Return a Speech2Text with the weights of fairseq's checkpoint, and what makes its features."""
    from dragoman.exchange.unpickling import read_checkpoint

    content = read_checkpoint(task.folder / "fairseq" / "checkpoint.pt")
    args, tensors = content["args"], content["model"]
    config = transformers.Speech2TextConfig(
        vocab_size=len(tensors["decoder.embed_tokens.weight"]),
        d_model=args["encoder_embed_dim"],
        encoder_layers=args["encoder_layers"],
        decoder_layers=args["decoder_layers"],
        encoder_ffn_dim=args["encoder_ffn_embed_dim"],
        decoder_ffn_dim=args["decoder_ffn_embed_dim"],
        encoder_attention_heads=args["encoder_attention_heads"],
        decoder_attention_heads=args["decoder_attention_heads"],
        conv_channels=args["conv_channels"],
        max_source_positions=args["max_source_positions"],
        max_target_positions=args["max_target_positions"],
        scale_embedding=True,
        tie_word_embeddings=False,
        decoder_start_token_id=END,
    )
    model = transformers.Speech2TextForConditionalGeneration(config)
    renamed = {"lm_head.weight": tensors.pop("decoder.output_projection.weight")}
    for name, tensor in tensors.items():
        if name.endswith(("version", "_float_tensor")):
            continue
        name = name.replace("transformer_layers", "layers").replace("subsample.conv_layers", "conv.conv_layers")
        renamed[f"model.{name}"] = tensor
    missing, unexpected = model.load_state_dict(renamed, strict=False)
    if unexpected or any("embed_positions" not in name for name in missing):
        raise ValueError(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    return model, transformers.Speech2TextFeatureExtractor()


def main() -> None:
    """Serve."""
    task = arguments()
    torch.set_grad_enabled(False)
    dtype = getattr(torch, task.dtype)
    if task.folder.name == "text":
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(task.folder / "transformers")
        extractor = None
    else:
        model, extractor = speech_model(task)
    model = model.to(task.device, dtype).eval()
    lengths: dict[str, Any] = {"max_new_tokens": (task.length or LONGEST) + 1, "min_new_tokens": task.length or 1}
    options = {"num_beams": BEAM, "early_stopping": True, "do_sample": False, "length_penalty": 1.0} | lengths
    options |= {"suppress_tokens": [model.config.pad_token_id], "forced_eos_token_id": END}

    def translate(inputs: Sequence[Any]) -> list[list[int]]:
        if extractor is None:
            longest = max(map(len, inputs))
            ids = torch.tensor([[*row, *[1] * (longest - len(row))] for row in inputs])
            given = {"input_ids": ids, "attention_mask": (ids != 1).long()}
        else:
            given = dict(extractor(list(inputs), sampling_rate=16000, return_tensors="pt", padding=True))
            given["input_features"] = given["input_features"].to(dtype)
        given = {name: value.to(task.device) for name, value in given.items()}
        return [tokens[1:] for tokens in model.generate(**given, **options).tolist()]

    work(task, {"transformers": transformers.__version__, "torch": torch.__version__}, translate)


if __name__ == "__main__":
    main()
