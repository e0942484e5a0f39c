"""Checkpoints and scores of unbabel-comet itself, for tests that do not need it.

Runs inside the environment of ``make comet-env`` (unbabel-comet 2.2.7) and knows nothing of this project:

    .comet-env/bin/python tests/parity/make_comet_fixtures.py --out tests/parity/comet [--seed 1]

``encoder/`` is what a checkpoint leaves on the Hub: settings and tokenizer of a very small XLM-R. A case is a folder in
the layout of Unbabel's own: ``hparams.yaml`` and ``checkpoints/model.ckpt``, as Lightning's trainer saves it.
``segments.json`` holds what is scored, ``expected.json`` the scores of each case. Weights are random, and large enough
for scores to differ.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytorch_lightning
import sentencepiece
import torch
import yaml
from comet import load_from_checkpoint
from comet.models import ReferencelessRegression, RegressionMetric, UnifiedMetric
from transformers import XLMRobertaConfig

LINES = [
    "the old house stands by the river", "das alte haus steht am fluss", "she reads a book every evening",
    "sie liest jeden abend ein buch", "we walk home when it rains", "wir gehen heim, wenn es regnet", "Where are you?",
    "Wo bist du? Hier!", "la maison est petite", "il pleut sur la ville",
]  # fmt: skip
POSITIONS = 34  # of which a text may take 30

CASES = {
    "mix_sparsemax": (RegressionMetric, {"layer_transformation": "sparsemax", "layer_norm": False}),
    "mix_softmax_normed": (
        RegressionMetric,
        {"layer_transformation": "softmax", "layer_norm": True, "hidden_sizes": [11], "final_activation": "Sigmoid"},
    ),
    "mix_patched": (RegressionMetric, {"layer_transformation": "sparsemax", "layer_norm": False}),
    "one_layer_max": (RegressionMetric, {"layer": 1, "pool": "max"}),
    "without_reference": (ReferencelessRegression, {"pool": "cls", "layer_transformation": "softmax"}),
    "joined_with_source": (UnifiedMetric, {"input_segments": ["mt", "src"], "layer_norm": False}),
    "joined_with_both": (UnifiedMetric, {"layer_transformation": "softmax", "final_activation": "Sigmoid"}),
    "joined_with_reference": (UnifiedMetric, {"input_segments": ["mt", "ref"], "sent_layer": 2}),
}
IDENTIFIERS = {
    RegressionMetric: "regression_metric",
    ReferencelessRegression: "referenceless_regression_metric",
    UnifiedMetric: "unified_metric",
}


def make_encoder(folder: Path) -> None:
    """Write the settings and the tokenizer of an XLM-R."""
    folder.mkdir(parents=True)
    os.chdir(folder)  # SentencePiece's models hold the path of what they were trained on
    Path("lines.txt").write_text("\n".join(LINES * 5), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input="lines.txt", model_prefix="sentencepiece.bpe", vocab_size=75,
        model_type="unigram", normalization_rule_name="identity", hard_vocab_limit=False, num_threads=1,
    )  # fmt: skip
    size = sentencepiece.SentencePieceProcessor("sentencepiece.bpe.model").get_piece_size() + 2
    XLMRobertaConfig(
        vocab_size=size, hidden_size=12, num_hidden_layers=3, num_attention_heads=2, intermediate_size=18,
        max_position_embeddings=POSITIONS, type_vocab_size=1, layer_norm_eps=1e-5,
    ).save_pretrained(folder)  # fmt: skip
    for name in ("lines.txt", "sentencepiece.bpe.vocab"):
        Path(name).unlink()


def segments() -> list[dict[str, str]]:
    """Return what is scored: texts of all lengths, an empty one, some that are cut, letters never seen."""
    texts = ((LINES[n % 10], LINES[(n * 3 + 1) % 10], LINES[(n + 1 + n // 5) % 10]) for n in range(20))
    rows = [dict(zip(("src", "mt", "ref"), three, strict=True)) for three in texts]
    rows.append({"src": LINES[0], "mt": "", "ref": LINES[1]})
    rows.append({"src": " ".join(LINES), "mt": " ".join(LINES[::-1]), "ref": LINES[3]})
    rows.append({"src": "Ω und 😀", "mt": "  Wo   bist Ω? ", "ref": "5 % Wo"})
    return rows


def make_case(name: str, folder: Path, samples: list[dict[str, str]]) -> list[float]:
    """Write a checkpoint with random weights, and return its scores."""
    (folder / "checkpoints").mkdir(parents=True)
    os.chdir(folder)  # the encoder's folder is named in the checkpoint, and must not be one of this machine
    kind, options = CASES[name]
    settings = {"pretrained_model": "../encoder", "hidden_sizes": [13, 7], "load_pretrained_weights": False} | options
    model = kind(**settings)
    with torch.no_grad():
        for part, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.9 if "scalar_parameters" in part else 0.3))
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_checkpointing"), False)
    trainer = pytorch_lightning.Trainer(accelerator="cpu", **quiet)
    trainer.strategy.connect(model)
    trainer.save_checkpoint("checkpoints/model.ckpt", weights_only=True)
    said = {key: value for key, value in dict(model.hparams).items() if key != "load_pretrained_weights"}
    said["class_identifier"] = IDENTIFIERS[kind]
    if name == "mix_patched":
        said["layer_transformation"] = "sparsemax_patch"
    Path("hparams.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
    loaded = load_from_checkpoint("checkpoints/model.ckpt", local_files_only=True)
    found = loaded.predict(samples, batch_size=4, gpus=0, progress_bar=False, num_workers=0)
    return [float(score) for score in found["scores"]]


def main() -> None:
    """Write everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    out = given.out.resolve()
    torch.manual_seed(given.seed)
    make_encoder(out / "encoder")
    samples = segments()
    expected = {name: make_case(name, out / name, samples) for name in CASES}
    for file, content in (("segments.json", samples), ("expected.json", expected)):
        (out / file).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
