"""Checkpoints and outputs of fairseq itself for speech, for tests that need no fairseq.

Runs inside the environment of ``make fairseq-env`` (fairseq 0.12.2, with torchaudio, soundfile and pandas) and knows
nothing of this project:

    .fairseq-env/bin/python tests/parity/make_fairseq_speech_fixtures.py --out tests/parity/fairseq_speech [--seed 1]

``audio/`` holds the waveforms that all cases are given, 16 kHz. A case is a folder with the checkpoint and the files
beside it as fairseq keeps them, and ``expected.safetensors``: states, logits and gradients for each waveform alone, in
eval mode and float32. Translators have ``generated.json`` as well: the beam-5 hypotheses and scores of
fairseq-generate; that of LSTM layers also the features that it was given, and its label-smoothed loss. Encoders that
can be pre-trained have ``pretraining.safetensors``: the terms and gradients of fairseq's criterion for the beginnings
of the longer waveforms, the masks, and the distractors or negatives. Weights are random, and large enough for outputs
to differ.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import platform
import re
import shutil
import sys
import types
import unittest.mock
from pathlib import Path

import fairseq
import numpy as np
import sentencepiece
import soundfile
import torch
from fairseq import options, tasks
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.criterions.wav2vec_criterion import Wav2vecCriterion
from fairseq.data.data_utils import compute_mask_indices
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models.wav2vec.wav2vec2_asr import Wav2Vec2CtcConfig, Wav2VecCtc, Wav2VecEncoder
from fairseq_saving import disturb, save, work_on_current_torch, write
from omegaconf import OmegaConf, open_dict
from places import forget_places

SECONDS = (0.62, 1.1, 0.9, 0.31)
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda omicron rho sigma tau upsilon phi psi".split()
LETTERS = "|ETAONI'"
CONVOLUTIONS = "[(14, 10, 5)] + [(10, 3, 2)] * 2 + [(7, 2, 2)] * 2"
ENCODER = ["--encoder-layers", "2", "--encoder-embed-dim", "18", "--encoder-ffn-embed-dim", "22",
           "--encoder-attention-heads", "3", "--conv-pos", "6", "--conv-pos-groups", "3"]  # fmt: skip
LARGE = ["--extractor-mode", "layer_norm", "--conv-bias", "--layer-norm-first", "--normalize", "--conv-pos", "5"]
QUANTISER = ["--quantize-targets", "--latent-vars", "4", "--final-dim", "6"]
#: Of the batch whose loss is noted: samples of each row, distractors, updates before it.
CROP, DISTRACTORS, UPDATES = 9600, 7, 100000

# name: (options, fine-tuned with CTC, how the checkpoint is saved)
WAVEFORM_CASES = {
    "waveform_base": (["--conv-feature-layers", CONVOLUTIONS, *ENCODER, *QUANTISER], False, "args"),
    "waveform_large": (["--conv-feature-layers", CONVOLUTIONS, *ENCODER, *QUANTISER, *LARGE], False, "omegaconf"),
    "waveform_unprojected": (["--conv-feature-layers", "[(14, 10, 5), (18, 8, 4), (18, 4, 4)]", *ENCODER],
                             False, "cfg"),
    "waveform_ctc": (["--conv-feature-layers", CONVOLUTIONS, *ENCODER], True, "omegaconf"),
    "waveform_ctc_2020": (["--conv-feature-layers", CONVOLUTIONS, *ENCODER, *LARGE], True, "args"),
}  # fmt: skip

#: Of wav2vec of 2019, with the published model's kernels and strides, and some of its aggregator's layers.
AGGREGATING = ["--conv-feature-layers", "[(14, 10, 5), (14, 8, 4)] + [(14, 4, 2)] * 3 + [(14, 1, 1)] * 2",
               "--conv-aggregator-layers", "[(14, 2, 1), (14, 3, 1), (14, 6, 1)]", "--prediction-steps", "5",
               "--num-negatives", str(DISTRACTORS)]  # fmt: skip

# name: (options, how the checkpoint is saved). fairseq 0.12 switches off by an option what is on by default.
AGGREGATING_CASES = {
    "wav2vec_2019": (AGGREGATING, "args"),
    "wav2vec_scaled": ([*AGGREGATING, "--residual-scale", "0.3", "--log-compression"], "omegaconf"),
    "wav2vec_plain": ([*AGGREGATING, "--skip-connections-agg"], "cfg"),
}

S2T = ["--task", "speech_to_text", "--encoder-layers", "2", "--decoder-layers", "2", "--encoder-attention-heads", "3",
       "--decoder-attention-heads", "3", "--encoder-ffn-embed-dim", "22", "--decoder-ffn-embed-dim", "22",
       "--conv-channels", "14"]  # fmt: skip
LSTM = ["--arch", "s2t_berard_256_3_3", "--task", "speech_to_text", "--input-layers", "[22, 20]", "--conv-layers",
        "[(4, 3, 2), (4, 3, 2)]", "--num-blstm-layers", "2", "--lstm-size", "7", "--decoder-embed-dim", "10",
        "--decoder-hidden-dim", "14", "--attention-dim", "12", "--output-layer-dim", "16"]  # fmt: skip
WIDTH_18 = ["--encoder-embed-dim", "18", "--decoder-embed-dim", "18"]
WIDTH_15 = ["--encoder-embed-dim", "15", "--decoder-embed-dim", "15"]
UTTERANCE = {"transforms": {"*": ["utterance_cmvn"], "_train": ["utterance_cmvn", "specaugment"]},
             "specaugment": {"freq_mask_F": 27, "freq_mask_N": 1, "time_mask_N": 1, "time_mask_T": 100,
                             "time_mask_p": 1.0, "time_wrap_W": 0}}  # fmt: skip
GLOBAL = {"transforms": {"*": ["global_cmvn"]}, "global_cmvn": {"stats_npz_path": "gcmvn.npz"}}
TAGGED = {"transforms": {"_eval": ["utterance_cmvn"]}, "utterance_cmvn": {"norm_vars": False}}
TAGGED["prepend_tgt_lang_tag"] = True

# name: (options, config.yaml, languages that have tags, how the checkpoint is saved)
S2T_CASES = {
    "s2t_utterance": (["--arch", "s2t_transformer_s", *S2T, *WIDTH_18], UTTERANCE, [], "args"),
    "s2t_global": (["--arch", "s2t_transformer_m", *S2T, *WIDTH_15, "--conv-kernel-sizes", "3,5,3"], GLOBAL, [], "cfg"),
    "s2t_tagged": (["--arch", "s2t_transformer", *S2T, *WIDTH_18, "--activation-fn", "gelu", "--layernorm-embedding",
                    "--no-scale-embedding"], TAGGED, ["de", "fr"], "omegaconf"),
    "s2t_lstm": (LSTM, UTTERANCE, [], "cfg"),
}  # fmt: skip


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    work_on_current_torch()
    work_on_current_torchaudio()
    torch.set_num_threads(1)
    rng = np.random.default_rng(arguments.seed)
    shutil.rmtree(out, ignore_errors=True)
    (out / "audio").mkdir(parents=True)
    for number, seconds in enumerate(SECONDS):
        soundfile.write(out / "audio" / f"{number}.wav", sound(rng, seconds), 16000, subtype="PCM_16")
    makers = (
        (make_waveform_case, WAVEFORM_CASES),
        (make_aggregating_case, AGGREGATING_CASES),
        (make_s2t_case, S2T_CASES),
    )
    for make, cases in makers.items():
        for name, case in cases.items():
            print(name, flush=True)
            torch.manual_seed(arguments.seed)
            make(out / name, *case)
    versions = {"fairseq": fairseq.__version__, "torch": torch.__version__, "python": platform.python_version()}
    (out / "versions.json").write_text(json.dumps(versions | {"seed": arguments.seed}, indent=2) + "\n")


def work_on_current_torchaudio() -> None:
    """Undo what keeps fairseq 0.12.2 from running on a torchaudio that is years younger.

    And let it take variances of features in float64: in float32 it loses three digits of them, as the difference of the
    mean square and the square of the mean.
    """
    # Is imported whenever audio is read, and called only if rates or channels differ.
    sys.modules["torchaudio.sox_effects"] = types.ModuleType("torchaudio.sox_effects")
    import torchaudio

    torchaudio.sox_effects = sys.modules["torchaudio.sox_effects"]
    from fairseq.data.audio.feature_transforms.utterance_cmvn import UtteranceCMVN

    normalise = UtteranceCMVN.__call__
    UtteranceCMVN.__call__ = lambda self, x: normalise(self, x.astype("f8")).astype("f4")


def sound(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """Make a voice-like sound: gliding harmonics that swell, and noise."""
    time = np.arange(int(seconds * 16000)) / 16000
    pitch = 110 + 60 * rng.random() + 30 * np.sin(2 * np.pi * (1 + rng.random()) * time)
    phase = 2 * np.pi * np.cumsum(pitch) / 16000
    tones = sum(rng.random() / (1 + k) * np.sin(k * phase) for k in range(1, 20))
    swell = 0.6 + 0.4 * np.sin(2 * np.pi * 4 * time + rng.random())
    return 0.2 * swell * tones + 0.004 * rng.standard_normal(len(time)) + 0.002


def waveforms(folder: Path) -> list[torch.Tensor]:
    """Read the waveforms, each (1, N) in [-1, 1]."""
    files = sorted((folder.parent / "audio").glob("*.wav"))
    return [torch.from_numpy(soundfile.read(file, dtype="float32")[0])[None] for file in files]


def parsed(flags: list[str], data: Path):
    """Return the settings as fairseq's commands have them: a Namespace and a DictConfig."""
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, [str(data), *flags])
    return args, convert_namespace_to_omegaconf(copy.deepcopy(args))


def weighted(x: torch.Tensor) -> torch.Tensor:
    """Return a sum whose gradients tell all elements apart."""
    return (x * torch.linspace(-1, 1, x.numel()).view_as(x)).sum()


# -- encoders of waveforms -------------------------------------------------------------------------------------------


def make_waveform_case(folder: Path, flags: list[str], fine_tuned: bool, form: str) -> None:
    """Build an encoder, pre-trained or fine-tuned, save it, and note what it computes."""
    folder.mkdir()
    flags = ["--task", "audio_pretraining", "--arch", "wav2vec2", "--criterion", "wav2vec", *flags]
    args, cfg = parsed(flags, folder)
    task = tasks.setup_task(cfg.task)
    normalised = bool(cfg.task.normalize)
    if fine_tuned:
        lines = [f"{letter} {100 - number}\n" for number, letter in enumerate(LETTERS)]
        (folder / "dict.ltr.txt").write_text("".join(lines), encoding="utf-8")
        outer = OmegaConf.structured(Wav2Vec2CtcConfig)
        with open_dict(outer):
            outer.w2v_path, outer.normalize, outer.data = "/checkpoint/somebody/pretrained.pt", normalised, "data"
            outer.ddp_backend, outer.w2v_args = "c10d", cfg
            outer.apply_mask, outer.mask_prob, outer.layerdrop, outer.final_dropout = True, 0.3, 0.05, 0.1
        model = Wav2VecCtc(outer, Wav2VecEncoder(outer, 4 + len(LETTERS)))
        args, cfg = finished(args, cfg, outer)
    else:
        model = task.build_model(cfg.model)
        args.data = cfg.task.data = "data"  # not the place where this ran
    model.eval()
    disturb(model, 0.15)
    save(folder / "checkpoint.pt", model, args, cfg, form)
    forget_places(folder / "checkpoint.pt")
    numbers = {}
    for row, waveform in enumerate(waveforms(folder)):
        given = torch.nn.functional.layer_norm(waveform, waveform.shape) if normalised else waveform
        if fine_tuned:
            logits = model.get_logits(model(source=given, padding_mask=None)).transpose(0, 1)
            numbers[f"logits.{row}"] = logits[0]
        else:
            logits = model.extract_features(given, None)["x"]
            numbers[f"states.{row}"] = logits[0]
        weighted(logits).backward()
    write(numbers, model, folder / "expected.safetensors")
    if not fine_tuned and model.quantizer is not None:
        np.random.seed(1)  # from which fairseq draws masks
        note_pretraining(folder, model, task, normalised)


def beginnings(folder: Path) -> torch.Tensor:
    """Return as many samples of each waveform that has them (B, CROP)."""
    return torch.cat([waveform[:, :CROP] for waveform in waveforms(folder) if waveform.shape[1] >= CROP])


def note_pretraining(folder: Path, model, task, normalised: bool) -> None:
    """Note what fairseq's criterion of pre-training finds, with the weights of the base model."""
    source = beginnings(folder)
    if normalised:
        source = torch.nn.functional.layer_norm(source, source.shape[1:])
    rows, frames = len(source), int(model._get_feat_extract_output_lengths(torch.tensor(CROP)))
    masked = torch.from_numpy(compute_mask_indices((rows, frames), None, 0.5, 5, min_masks=2))
    model.zero_grad()
    model.quantizer.train()  # the rest stays in eval mode, without dropout
    model.feature_grad_mult, model.n_negatives = 0.1, DISTRACTORS
    model.set_num_updates(UPDATES)
    draw, compare, drawn, alone = model.sample_negatives, model.compute_preds, [], []

    def sample_negatives(*given, **named):
        negatives, numbers = draw(*given, **named)
        drawn.append(numbers)
        return negatives, numbers

    def compute_preds(x, y, negatives):
        # fairseq leaves out distractors that equal the target. On some processors a product depends on a row's place in
        # the batch, and vectors of the same codes differ in the last bits.
        same = (y - negatives).abs().amax(-1, keepdim=True) < 1e-5
        logits = compare(x, y, torch.where(same, y, negatives))
        alone.append(logits[1:].isneginf().all(0).sum())  # all distractors have the codes of the true frame
        return logits

    model.sample_negatives, model.compute_preds = sample_negatives, compute_preds
    keys = ["prob_perplexity", "code_perplexity", "temp"]
    criterion = Wav2vecCriterion(task, infonce=True, loss_weights=[0.1, 10.0], log_keys=keys)
    sample = {"id": torch.arange(rows), "net_input": {"source": source, "mask_indices": masked}}
    with unittest.mock.patch.object(torch.nn.functional, "gumbel_softmax", without_noise):
        loss, size, log = criterion(model, sample)
    (loss / size).backward()
    steps = int(size) // rows  # as many in each row
    first = steps * torch.arange(rows)[:, None, None]  # the rows' frames are numbered one after the other
    numbers = {"masked": masked, "distractors": (drawn[0].view(rows, steps, DISTRACTORS) - first).short()}
    numbers |= {name: torch.tensor(float(value)) for name, value in (log | {"alone": alone[0]}).items()}
    write(numbers, model, folder / "pretraining.safetensors")


def without_noise(logits: torch.Tensor, tau: float, hard: bool) -> torch.Tensor:
    """Take the most probable entry, with the gradient of the softmax at the temperature; the sum is exact."""
    soft = (logits / tau).softmax(-1)
    return torch.nn.functional.one_hot(soft.argmax(-1), soft.shape[-1]) + (soft - soft.detach())


def finished(args, cfg, outer):
    """Return the settings of a fine-tuned checkpoint in both forms, with those of the pre-trained one inside."""
    plain = OmegaConf.to_container(outer, resolve=False, enum_to_str=True)
    task = {"_name": "audio_finetuning", "normalize": outer.normalize, "labels": "ltr", "data": "data"}
    new = OmegaConf.create({"task": task, "model": {**plain, "_name": "wav2vec_ctc"}})
    inner = copy.deepcopy(args)
    inner.data = "data"
    old = argparse.Namespace(**{name: value for name, value in plain.items() if name != "w2v_args"})
    old.w2v_args, old.arch, old.task, old.labels = inner, "wav2vec_ctc", "audio_pretraining", "ltr"
    return old, new


def make_aggregating_case(folder: Path, flags: list[str], form: str) -> None:
    """Build a wav2vec of 2019, save it, and note its latents, its contexts (as states) and what pre-training finds."""
    folder.mkdir()
    args, cfg = parsed(["--task", "audio_pretraining", "--arch", "wav2vec", "--criterion", "wav2vec", *flags], folder)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model).eval()
    args.data = cfg.task.data = "data"
    vars(args).update(OmegaConf.to_container(cfg.model, resolve=True, enum_to_str=True))  # in 2019 all were kept
    disturb(model, 0.15)
    save(folder / "checkpoint.pt", model, args, cfg, form)
    forget_places(folder / "checkpoint.pt")
    numbers = {}
    for row, waveform in enumerate(waveforms(folder)):
        latents = model.feature_extractor(waveform)
        states = model.feature_aggregator(latents).transpose(1, 2)
        numbers |= {f"latents.{row}": latents.transpose(1, 2)[0], f"states.{row}": states[0]}
        weighted(states).backward()
    write(numbers, model, folder / "expected.safetensors")
    source = beginnings(folder)
    sample = {"id": torch.arange(len(source)), "net_input": {"source": source}}
    randint, drawn = torch.randint, []

    def recorded(*given, **named):
        drawn.append(randint(*given, **named))
        return drawn[-1]  # what fairseq does to it, it does in place

    model.zero_grad()
    with unittest.mock.patch.object(torch, "randint", recorded):
        loss, size, _ = Wav2vecCriterion(task)(model, sample)
    (loss / size).backward()
    rows, frames = len(source), model.feature_extractor(source).shape[2]
    first = frames * torch.arange(rows)[:, None, None]  # the rows' frames are numbered one after the other
    negatives = (drawn[-1].view(rows, DISTRACTORS, frames) - first).transpose(1, 2)
    numbers = {"negatives": negatives.short(), "loss": loss, "sample_size": torch.tensor(float(size))}
    write(numbers, model, folder / "pretraining.safetensors")


# -- filterbanks to text ---------------------------------------------------------------------------------------------


def make_s2t_case(folder: Path, flags: list[str], config: dict, tags: list[str], form: str) -> None:
    """Build a translator, save it with all that lies beside it, and note what it computes and generates."""
    folder.mkdir()
    make_pieces(folder, tags)
    if "global_cmvn" in config:
        rng = np.random.default_rng(1)
        np.savez(folder / "gcmvn.npz", mean=rng.normal(9, 2, 80).astype("f4"), std=rng.uniform(2, 5, 80).astype("f4"))
    config = {"bpe_tokenizer": {"bpe": "sentencepiece", "sentencepiece_model": "/somewhere/spm.model"},
              "input_channels": 1, "input_feat_per_channel": 80, "vocab_filename": "dict.txt", **config}  # fmt: skip
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    used = folder / "used"  # fairseq wants paths that exist, and a table of the test set
    used.mkdir()
    local = copy.deepcopy(config)
    local["bpe_tokenizer"]["sentencepiece_model"] = str(folder / "spm.model")
    if "global_cmvn" in local:
        local["global_cmvn"]["stats_npz_path"] = str(folder / "gcmvn.npz")
    (used / "config.yaml").write_text(json.dumps(local), encoding="utf-8")
    shutil.copy(folder / "dict.txt", used)
    table = ["id\taudio\tn_frames\ttgt_text\tspeaker\ttgt_lang"]
    for number, seconds in enumerate(SECONDS):
        frames = 1 + (int(seconds * 16000) - 400) // 160
        language = tags[number % len(tags)] if tags else "de"
        table.append(f"{number}\t{folder.parent / 'audio' / f'{number}.wav'}\t{frames}\talpha beta\tone\t{language}")
    (used / "test.tsv").write_text("\n".join(table) + "\n")
    prefix = ["--ignore-prefix-size", "1"] if tags else []
    flags = [*flags, "--criterion", "label_smoothed_cross_entropy", "--config-yaml", "config.yaml", *prefix]
    args, cfg = parsed(flags, used)
    task = tasks.setup_task(cfg.task)
    with contextlib.redirect_stdout(io.StringIO()):
        model = task.build_model(cfg.model).eval()
    disturb(model, 0.6 if flags[: len(LSTM)] == LSTM else 0.25)  # LSTM layers fall into loops, with beams as good
    numbers = {}
    task.load_dataset("test")
    for row in range(len(SECONDS)):
        sample = task.dataset("test").collater([task.dataset("test")[row]])
        target = torch.randint(len(task.target_dictionary) - 4, (1, 5)) + 4
        given = sample["net_input"]
        encoded = model.encoder(given["src_tokens"], given["src_lengths"])
        logits, _ = model.decoder(torch.cat([torch.tensor([[2]]), target], 1), encoder_out=encoded)
        states = encoded["encoder_out"]
        numbers |= {f"target.{row}": target[0], f"logits.{row}": logits[0]}
        if isinstance(states, list):
            numbers[f"states.{row}"] = states[0][:, 0]
            weighted(logits).backward()
            continue
        # LSTM layers are compared from the features on, for which the machine's fast Fourier transform does not matter.
        numbers |= {f"features.{row}": given["src_tokens"][0], f"states.{row}": states[:, 0]}
        labels = torch.cat([target[0], torch.tensor([2])])[:, None]
        loss, _ = label_smoothed_nll_loss(logits[0].log_softmax(-1), labels, 0.1)
        loss.backward()
        numbers["loss"] = numbers.get("loss", 0) + loss
    write(numbers, model, folder / "expected.safetensors")
    save(used / "checkpoint.pt", model, args, cfg, "cfg" if form == "omegaconf" else form)  # with paths that exist
    generate(folder, used, tags)
    args.data = cfg.task.data = cfg.model.data = "data"
    save(folder / "checkpoint.pt", model, args, cfg, form)
    forget_places(folder / "checkpoint.pt")
    shutil.rmtree(used)


def make_pieces(folder: Path, tags: list[str]) -> None:
    """Train a small SentencePiece model, and write the dictionary as prep_mustc_data.py of fairseq does."""
    rng = np.random.default_rng(2)
    lines = [" ".join(rng.choice(WORDS, 6)) for _ in range(300)]
    symbols = [f"<lang:{tag}>" for tag in tags]
    model = io.BytesIO()  # a file's name would be kept in it
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=40, character_coverage=1.0,
        num_threads=1, normalization_rule_name="identity", unk_id=3, bos_id=0, eos_id=2, pad_id=1,
        user_defined_symbols=symbols, minloglevel=2,
    )  # fmt: skip
    (folder / "spm.model").write_bytes(model.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "spm.model"))
    rows = [pieces.id_to_piece(i) for i in range(len(pieces))]
    rows = [row for row in rows if row not in ("<s>", "<pad>", "</s>", "<unk>")]
    (folder / "dict.txt").write_text("".join(f"{row} 1\n" for row in rows), encoding="utf-8")


def generate(folder: Path, used: Path, tags: list[str]) -> None:
    """Run fairseq-generate, one waveform at a time, and keep what it found."""
    from fairseq_cli import generate as command

    sys.argv = ["fairseq-generate", str(used), "--config-yaml", "config.yaml", "--gen-subset", "test", "--task",
                "speech_to_text", "--path", str(used / "checkpoint.pt"), "--batch-size", "1", "--beam", "5", "--nbest",
                "5", "--max-len-a", "0", "--max-len-b", "30", "--cpu", "--num-workers", "0"]  # fmt: skip
    sys.argv += ["--prefix-size", "1"] if tags else []
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        command.cli_main()
    found = [[] for _ in SECONDS]
    for number, score, tokens in re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", printed.getvalue(), flags=re.MULTILINE):
        found[int(number)].append({"score": float(score), "pieces": tokens})
    assert all(len(one) == 5 for one in found)
    for number, one in enumerate(found):
        found[number] = {"language": tags[number % len(tags)] if tags else "de", "hypotheses": one}
    (folder / "generated.json").write_text(json.dumps(found, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
