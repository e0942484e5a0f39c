"""Checkpoints and outputs of fairseq itself, for tests that need no fairseq.

Runs inside the environment of ``make fairseq-env`` (fairseq 0.12.2) and knows nothing of this project:

    python tests/parity/make_fairseq_fixtures.py --out tests/parity/fairseq [--corpus FOLDER --lines FILE] [--seed 1]

For each case a folder with the checkpoint and dictionaries as fairseq saves them, and ``expected.safetensors``: encoder
states, logits, loss and gradients for fixed inputs, in eval mode and float32; for the case of many languages also
``beams.json``: what its task makes of texts. With ``--corpus`` (``train.en``,
``train.de``, ``dev.*``, ``test.*``, as Almanac writes) also the folder ``trained``: fairseq-train's own checkpoint, and
the beam-5 hypotheses and scores of fairseq-generate for 200 sentences, and the ids of the lines of ``--lines`` (see
lines.py).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path

import fairseq
import sentencepiece
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_saving import disturb, save, work_on_current_torch, write
from places import forget_places

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau".split()
SMALL = ["--encoder-layers", "2", "--decoder-layers", "2", "--encoder-attention-heads", "3"]
SMALL += ["--decoder-attention-heads", "3", "--encoder-ffn-embed-dim", "22", "--decoder-ffn-embed-dim", "22"]
WIDTH_18 = [*SMALL, "--encoder-embed-dim", "18", "--decoder-embed-dim", "18"]
POSITIONS = ["--max-source-positions", "24", "--max-target-positions", "20"]
TRANSLATION = ["--task", "translation", "-s", "en", "-t", "de"]
TAGGED = ["LANG_TOK_EN", "LANG_TOK_DE"]
#: The file ML50_langs.txt: mBART-50's languages, in the order of their symbols.
FIFTY = """
ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX ro_RO
ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF
pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
""".split()
MANY = ["--task", "translation_multi_simple_epoch", "--lang-pairs", "en_XX-de_DE,de_DE-en_XX", "--lang-dict",
        "ML50_langs.txt", "--lang-tok-style", "mbart", "--encoder-langtok", "src", "--decoder-langtok"]  # fmt: skip

# name: (options, symbols behind the words of the dictionary, how the checkpoint is saved)
CASES = {
    "post_norm": ([*TRANSLATION, "--arch", "transformer", *WIDTH_18], ([], ["one"]), "cfg"),
    "post_norm_2019": ([*TRANSLATION, "--arch", "transformer", *WIDTH_18, "--share-decoder-input-output-embed"],
                       ([], ["one"]), "args"),
    "pre_norm_shared": ([*TRANSLATION, "--arch", "transformer_wmt_en_de_big_t2t", *WIDTH_18, *POSITIONS,
                         "--share-all-embeddings", "--encoder-learned-pos", "--decoder-learned-pos",
                         "--activation-fn", "gelu", "--layernorm-embedding", "--no-scale-embedding"],
                        (TAGGED, TAGGED), "args"),
    "two_widths": ([*TRANSLATION, "--arch", "transformer_vaswani_wmt_en_de_big", *SMALL, "--encoder-embed-dim", "12",
                    "--decoder-embed-dim", "18", "--encoder-normalize-before", "--decoder-normalize-before",
                    "--no-decoder-final-norm", "--activation-fn", "gelu_accurate"], ([], ["one", "two"]), "omegaconf"),
    "odd_width": ([*TRANSLATION, "--arch", "transformer_iwslt_de_en", *SMALL, "--encoder-embed-dim", "15",
                   "--decoder-embed-dim", "15", "--decoder-normalize-before", "--layernorm-embedding"],
                  ([], []), "cfg"),
    "without_positions": ([*TRANSLATION, "--arch", "transformer", *WIDTH_18, "--no-token-positional-embeddings"],
                          ([], []), "cfg"),
    "denoising_pre_norm": (["--task", "translation_from_pretrained_bart", "-s", "en_XX", "-t", "de_DE", "--langs",
                            "de_DE,en_XX", "--arch", "mbart_large", *WIDTH_18, *POSITIONS], ([], []), "args"),
    "tagged_post_norm": ([*TRANSLATION, "--arch", "transformer_wmt_en_de_big", *WIDTH_18, *POSITIONS,
                          "--share-all-embeddings", "--encoder-learned-pos", "--decoder-learned-pos",
                          "--activation-fn", "gelu"], (TAGGED, TAGGED), "args"),
    "many_languages": ([*MANY, "--arch", "mbart_large", *WIDTH_18, *POSITIONS], ([], []), "args"),
    "denoising_post_norm": ([*TRANSLATION, "--arch", "bart_base", *WIDTH_18, *POSITIONS], (["<mask>"], ["<mask>"]),
                            "cfg"),
    "masked_tokens": (["--task", "masked_lm", "--arch", "roberta_base", "--encoder-layers", "2", "--encoder-embed-dim",
                       "18", "--encoder-ffn-embed-dim", "22", "--encoder-attention-heads", "3",
                       "--max-positions", "24"], ([], []), "cfg"),
}  # fmt: skip


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--lines", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--case", action="append", choices=CASES, help="only this one; may be repeated")
    arguments = parser.parse_args()
    work_on_current_torch()
    torch.set_num_threads(1)
    for name in arguments.case or CASES:
        flags, extra, form = CASES[name]
        print(name, flush=True)
        torch.manual_seed(arguments.seed)
        make_case(arguments.out / name, flags, extra, form)
    if arguments.corpus:
        train(arguments.out / "trained", arguments.corpus, arguments.updates, arguments.seed)
    if arguments.lines:
        number_texts(arguments.out / "trained", json.loads(arguments.lines.read_text(encoding="utf-8")))
    versions = {"fairseq": fairseq.__version__, "torch": torch.__version__, "python": platform.python_version()}
    (arguments.out / "versions.json").write_text(json.dumps(versions | {"seed": arguments.seed}, indent=2) + "\n")


# -- random models ---------------------------------------------------------------------------------------------------


def make_case(folder: Path, flags: list[str], extra: tuple[list[str], list[str]], form: str) -> None:
    """Build a model of random weights, save it, and note what it computes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pair = (option(flags, "--lang-pairs") or "").split(",")[0].split("-")
    sides = pair if len(pair) == 2 else [option(flags, name) for name in ("-s", "-t")]
    for side, symbols in zip(sides, extra, strict=True):
        lines = [f"{word} {100 - number}\n" for number, word in enumerate([*WORDS, *symbols])]
        (folder / (f"dict.{side}.txt" if side else "dict.txt")).write_text("".join(lines), encoding="utf-8")
    if "ML50_langs.txt" in flags:
        (folder / "ML50_langs.txt").write_text("\n".join(FIFTY) + "\n", encoding="utf-8")
    flags = [str(folder / flag) if flag == "ML50_langs.txt" else flag for flag in flags]
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, [str(folder), *flags])
    cfg = convert_namespace_to_omegaconf(args)
    with contextlib.redirect_stdout(io.StringIO()):
        task = tasks.setup_task(cfg.task)
        model = task.build_model(cfg.model).eval()
    disturb(model, 0.1)
    for held in (args, cfg.task, cfg.model):  # not the place where this ran
        if hasattr(held, "data"):
            held.data = "data-bin"
        if getattr(held, "lang_dict", None):
            held.lang_dict = "data-bin/ML50_langs.txt"
    save(folder / "checkpoint.pt", model, args, cfg, form)
    forget_places(folder / "checkpoint.pt")
    numbers = (masked if option(flags, "--task") == "masked_lm" else translated)(model, task)
    write(numbers, model, folder / "expected.safetensors")
    if "--lang-pairs" in flags:
        found = json.dumps(beams(model, task, *sides), indent=0)
        (folder / "beams.json").write_text(found + "\n", encoding="utf-8")


def option(flags: list[str], name: str) -> str | None:
    """Return the value of an option among flags."""
    return flags[flags.index(name) + 1] if name in flags else None


def sentences(vocabulary: int, lengths: tuple[int, ...]) -> list[torch.Tensor]:
    """Draw sentences that end with </s> (2)."""
    return [torch.cat([torch.randint(4, vocabulary, (length - 1,)), torch.tensor([2])]) for length in lengths]


def padded(rows: list[torch.Tensor], left: bool) -> torch.Tensor:
    """Pad (B, L) with 1, on the side where fairseq has it."""
    longest = max(map(len, rows))
    pads = [torch.ones(longest - len(row), dtype=torch.int64) for row in rows]
    return torch.stack([torch.cat([pad, row] if left else [row, pad]) for row, pad in zip(rows, pads, strict=True)])


def translated(model, task) -> dict[str, torch.Tensor]:
    """Return states, logits and label-smoothed loss (0.1, summed over tokens), whose gradients it finds."""
    from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

    sources = sentences(len(task.source_dictionary), (9, 5, 1))
    targets = sentences(len(task.target_dictionary), (4, 7, 2))
    inputs = padded(sources, left=True)
    previous = padded([torch.cat([row[-1:], row[:-1]]) for row in targets], left=False)
    lengths = torch.tensor([len(row) for row in sources])
    encoded = model.encoder(inputs, lengths)
    states = encoded["encoder_out"][0].transpose(0, 1)
    logits, _ = model.decoder(previous, encoder_out=encoded)
    labels = padded(targets, left=False)
    scores = logits.log_softmax(-1).flatten(0, 1)
    loss, _ = label_smoothed_nll_loss(scores, labels.flatten(), 0.1, ignore_index=1, reduce=True)
    loss.backward()
    numbers = {"loss": loss}
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        numbers |= {f"source.{row}": source, f"target.{row}": target}
        numbers |= {f"states.{row}": states[row, -len(source) :], f"logits.{row}": logits[row, : len(target)]}
    return numbers


def masked(model, task) -> dict[str, torch.Tensor]:
    """Return states and logits at every token, the sum of -log p of the tokens themselves, and its gradients."""
    rows = [torch.cat([torch.tensor([0]), row]) for row in sentences(len(task.source_dictionary), (9, 5, 2))]
    tokens = padded(rows, left=False)
    states, _ = model(tokens, features_only=True)
    logits, _ = model(tokens)
    loss = sum(-logits[i, : len(row)].log_softmax(-1).gather(1, row[:, None]).sum() for i, row in enumerate(rows))
    loss.backward()
    numbers = {"loss": loss}
    for row, source in enumerate(rows):
        numbers |= {f"source.{row}": source}
        numbers |= {f"states.{row}": states[row, : len(source)], f"logits.{row}": logits[row, : len(source)]}
    return numbers


def beams(model, task, source: str, target: str) -> list[dict[str, object]]:
    """Return texts, their symbols as the task puts them before the encoder, and the hypotheses of its beam search."""
    task.args.source_lang, task.args.target_lang = source, target
    texts = ["alpha beta", "tau sigma rho pi omicron xi", "omega", "gamma"]
    texts.append("kappa iota theta eta zeta delta gamma beta")
    dictionary = task.source_dictionary
    rows = [dictionary.encode_line(text, add_if_not_exist=False).long() for text in texts]
    data = task.build_dataset_for_inference(rows, [len(row) for row in rows])
    search = task.build_generator([model], GenerationConfig(beam=5, max_len_b=12))
    found = []
    for number, text in enumerate(texts):
        sample = data.collater([data[number]])
        (hypotheses,) = task.inference_step(search, [model], sample)
        symbols = [dictionary[int(one)] for one in sample["net_input"]["src_tokens"][0]]
        outputs = [([dictionary[int(t)] for t in h["tokens"]], float(h["score"])) for h in hypotheses]
        outputs = [{"symbols": written, "score": score} for written, score in outputs]
        found.append({"text": text, "symbols": symbols, "hypotheses": outputs})
    return found


# -- a trained model -------------------------------------------------------------------------------------------------


def train(folder: Path, corpus: Path, updates: int, seed: int) -> None:
    """Train with fairseq's commands, translate with them, and keep checkpoint, dictionary and hypotheses."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        texts = {(split, side): (corpus / f"{split}.{side}").read_text(encoding="utf-8").splitlines()
                 for split in ("train", "dev", "test") for side in ("en", "de")}  # fmt: skip
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts["train", "en"] + texts["train", "de"]),
            model_prefix=str(folder / "sentencepiece.bpe"), vocab_size=250, num_threads=1, minloglevel=2,
        )  # fmt: skip
        (folder / "sentencepiece.bpe.vocab").unlink()
        pieces = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
        for (split, side), lines in texts.items():
            lines = lines[:200] if split == "test" else lines
            cut = "".join(" ".join(pieces.encode(line, out_type=str)) + "\n" for line in lines)
            (work / f"{split}.{side}").write_text(cut, encoding="utf-8")
        data = work / "data-bin"
        run("preprocess", "-s", "en", "-t", "de", "--joined-dictionary", "--destdir", data,
            "--trainpref", work / "train", "--validpref", work / "dev", "--testpref", work / "test")  # fmt: skip
        run("train", data, "--save-dir", work / "saved", "--arch", "transformer", "--share-all-embeddings",
            "--encoder-embed-dim", 48, "--decoder-embed-dim", 48, "--encoder-ffn-embed-dim", 96,
            "--decoder-ffn-embed-dim", 96, "--encoder-layers", 2, "--decoder-layers", 2,
            "--encoder-attention-heads", 4, "--decoder-attention-heads", 4, "--encoder-normalize-before",
            "--decoder-normalize-before", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", 0.005,
            "--lr-scheduler", "inverse_sqrt", "--warmup-updates", 200, "--dropout", 0.1, "--max-tokens", 2000,
            "--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1, "--max-update", updates,
            "--no-epoch-checkpoints", "--no-save-optimizer-state", "--seed", seed, "--cpu", "--num-workers", 0,
            "--log-format", "simple", "--log-interval", 100)  # fmt: skip
        shutil.copy(work / "saved" / "checkpoint_best.pt", folder / "checkpoint.pt")
        for side in ("en", "de"):
            shutil.copy(data / f"dict.{side}.txt", folder)
        printed = run("generate", data, "--path", folder / "checkpoint.pt", "--beam", 5, "--nbest", 5, "--cpu",
                      "--batch-size", 1, "--num-workers", 0, "-s", "en", "-t", "de")  # fmt: skip
    forget_places(folder / "checkpoint.pt")
    found = [{"source": line, "hypotheses": []} for line in texts["test", "en"][:200]]
    for number, score, tokens in re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", printed, flags=re.MULTILINE):
        found[int(number)]["hypotheses"].append({"score": float(score), "pieces": tokens})
    assert all(len(one["hypotheses"]) == 5 for one in found)
    (folder / "generated.json").write_text(json.dumps(found, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def number_texts(folder: Path, texts: list[str]) -> None:
    """Write the ids that fairseq gives texts, its end symbol among them."""
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    dictionary = Dictionary.load(str(folder / "dict.en.txt"))
    texts = [*texts, "<s> a", "</s>", "a <pad> b", "<unk>"]  # what a user types is no symbol
    lines = (" ".join(pieces.encode(text, out_type=str)) for text in texts)
    ids = [dictionary.encode_line(line, add_if_not_exist=False).tolist() for line in lines]
    pairs = [{"text": text, "ids": numbers} for text, numbers in zip(texts, ids, strict=True)]
    rows = ",\n".join(json.dumps(pair, ensure_ascii=False) for pair in pairs)
    (folder / "ids.json").write_text(f"[\n{rows}\n]\n", encoding="utf-8")


def run(command: str, *arguments: object) -> str:
    """Run fairseq-COMMAND in this process, and return what it printed."""
    from importlib import import_module

    sys.argv = [f"fairseq-{command}", *map(str, arguments)]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        import_module(f"fairseq_cli.{command}").cli_main()
    return printed.getvalue()


if __name__ == "__main__":
    main()
