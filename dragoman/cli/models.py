"""The commands that import, trim, extend, export and share models. Like main.py, it imports nothing heavy first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.commands.text_options import names_of
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.files import is_empty

models = typer.Typer()
PANEL = "Import and export of models"
Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace the model that is in --out already")]


@models.command("import", rich_help_panel=PANEL)
def import_(
    source: Annotated[
        Path,
        typer.Argument(
            help="fairseq checkpoint, or folder with a checkpoint and its dictionaries; Hugging Face model folder, "
            "or name of a model on the Hub (Helsinki-NLP/opus-mt-en-de)"
        ),
    ],
    out: Annotated[Path, typer.Option(help="model folder to write")],
    allow: Annotated[
        list[str] | None, typer.Option(help="name prefix of tensors that may be missing or unexpected; repeatable")
    ] = None,
    dictionary: Annotated[
        Path | None, typer.Option(help="dict.txt, or folder with several; default: next to SOURCE")
    ] = None,
    pieces: Annotated[
        Path | None,
        typer.Option(
            help="SentencePiece model, BPE codes, folder with encoder.json and vocab.bpe, or: words; "
            "default: next to SOURCE"
        ),
    ] = None,
    source_languages: Annotated[
        str | None, typer.Option(help="comma-separated codes (en,de), if the checkpoint has none")
    ] = None,
    target_languages: Annotated[
        str | None, typer.Option(help="comma-separated codes (en,de), if the checkpoint has none")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="native, or transformers, which computes SeamlessM4T, NLLB-MoE, Canary, Qwen2-Audio, Granite, Voxtral "
            "and decoder-only language models (Qwen, Gemma, TowerInstruct); pip install 'dragoman\\[hf]'"
        ),
    ] = "native",
    prompt: Annotated[
        str | None,
        typer.Option(
            help="what a language model is asked, with {text} (none if it hears), {source_language} and "
            "{target_language}, and {context} for the lines before (translate --context); its chat template is put "
            "around it; default: as TowerInstruct is asked"
        ),
    ] = None,
    window: Annotated[
        float | None,
        typer.Option(
            help="seconds that Whisper or Qwen2-Audio hears at a time, fewer than its 30: short sound takes "
            "that much less time, longer sound is divided (--maximum-seconds)"
        ),
    ] = None,
    times: Annotated[
        bool, typer.Option("--times", help="Whisper writes the times of its segments, for subtitles")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    r"""Convert a fairseq or Hugging Face checkpoint to a model folder, and report which tensors were loaded.

    fairseq: Transformers of all kinds for text, mRASP, mRASP2, mBART, mBART-50, BART, RoBERTa, XLM-R; for speech, S2T
    Transformers, wav2vec, and wav2vec 2.0, XLSR and XLS-R, pre-trained or fine-tuned with CTC. Hugging Face: NLLB,
    M2M-100, T5, MADLAD-400, MarianMT (OPUS-MT), FSMT, mBART, mBART-50, BART, BERT, RoBERTa, XLM-R; for speech,
    Whisper, Speech2Text, and wav2vec 2.0, XLSR, XLS-R, HuBERT and w2v-BERT 2.0, pre-trained or fine-tuned with CTC.
    For these neither fairseq nor transformers is needed; --engine transformers takes others. No code in the files is
    run; a Hub model is downloaded (pip install 'dragoman\[hf]'). See docs/from_fairseq.md and
    docs/from_huggingface.md.
    """
    from dragoman.exchange.importing import import_model
    from dragoman.runs.announcing import usage

    _check_free(out, overwrite)
    report = import_model(
        source,
        out,
        allow=allow or [],
        dictionary=dictionary,
        pieces=pieces,
        source_languages=names_of(source_languages) if source_languages else None,
        target_languages=names_of(target_languages) if target_languages else None,
        engine=engine,
        prompt=prompt,
        window=window,
        times=times,
    )
    for line in report.lines():
        print(line)
    print(usage(out))


@models.command(rich_help_panel=PANEL)
def trim(
    model: Annotated[Path, typer.Argument(help="folder of a model, or of a run")],
    manifests: Annotated[list[str], typer.Option(help="manifest (*.arrow) or glob pattern; repeatable")],
    out: Annotated[Path, typer.Option(help="model folder to write")],
    overwrite: Overwrite = False,
) -> None:
    """Remove vocabulary pieces that no text in the manifests uses; keeps tags, specials and single bytes.

    Texts that use only kept pieces are tokenised as before, and the logits of kept pieces do not change. Probabilities
    rise slightly, since they are normalised over fewer pieces, so that the order of two close hypotheses can change.
    """
    from dragoman.exchange.trimming import trim as trim_model

    _check_free(out, overwrite)
    print(f"{out}: {trim_model(model, manifests, out)}")


@models.command(rich_help_panel=PANEL)
def extend(
    model: Annotated[Path, typer.Argument(help="folder of a model, or of a run")],
    language: Annotated[str, typer.Option(help="code of the new language")],
    like: Annotated[str, typer.Option(help="code of a related language of the model, with whose symbol it begins")],
    text: Annotated[Path, typer.Option(help="text file in the new language, a sentence per line")],
    out: Annotated[Path, typer.Option(help="model folder to write")],
    pieces: Annotated[int, typer.Option(min=1, help="number of pieces to learn from the text")] = 2000,
    overwrite: Overwrite = False,
) -> None:
    """Add a language to a translator: pieces for its text, and its symbol; then fine-tune it.

    Pieces that the vocabulary lacks begin as the mean of the old pieces that they consist of, the symbol as that of the
    related language. Texts in all other languages are tokenised as before, and the logits of old symbols do not change.
    """
    from dragoman.exchange.extending import extend as extend_model

    _check_free(out, overwrite)
    print(f"{out}: {extend_model(model, out, language=language, like=like, text=text, pieces=pieces)}")


@models.command(rich_help_panel=PANEL)
def export(
    model: Annotated[Path, typer.Argument(help="folder of a model, or of a run")],
    out: Annotated[Path, typer.Option(help="output folder")],
    format: Annotated[str, typer.Option(help="ctranslate2, huggingface or peft")] = "ctranslate2",
    quantization: Annotated[
        str, typer.Option(help="float32, float16, bfloat16, int16, int8, int8_float16, ...")
    ] = "float32",
    compare: Annotated[
        list[Path] | None,
        typer.Option(help="manifest to translate with both engines, to count the outputs that differ; repeatable"),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="number of rows per manifest to compare; 0: all")] = 0,
    like: Annotated[
        Path | None,
        typer.Option(
            help="folder that the model was imported from, with files to copy: for huggingface, peft, and Whisper"
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Convert a model for another engine: CTranslate2 (text translators, Whisper) or Hugging Face transformers.

    transformers gets text translators, and encoders of waveforms (wav2vec 2.0 and its relatives); with --like, whatever
    was imported and fine-tuned (Whisper, Speech2Text, w2v-BERT, T5). CTranslate2 gets a fine-tuned Whisper with --like,
    as faster-whisper reads it. peft gets what a language model learned by LoRA, one that hears too, without what it
    hears with. A part that the engine does not support (several memories, other layers) is an error.
    --quantization, --compare and --limit apply to ctranslate2 only.
    """
    from dragoman.exchange.exporting import FORMATS

    if format not in FORMATS:
        raise UsageError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    _check_free(out, overwrite)
    FORMATS[format](model, out, quantization=quantization, compare=compare or [], limit=limit, like=like)


@models.command(rich_help_panel=PANEL)
def card(
    model: Annotated[Path, typer.Argument(help="folder of a model, or of a run")],
    name: Annotated[str | None, typer.Option(help="name on the Hub: OWNER/NAME")] = None,
    license: Annotated[
        str | None, typer.Option(help="license identifier on the Hub: apache-2.0, cc-by-4.0, ...")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="scores to include: output folder of the run that trained it, or a results.jsonl"),
    ] = None,
) -> None:
    """Write a model card, README.md: the task, the usage, the scores and the metadata for the Hub.

    Uses only the model folder and the results, no network. You may edit the card; push uploads the file as it is.
    """
    from dragoman.exchange.card import write_card

    print(write_card(model, name=name, license=license, results=results))


@models.command(rich_help_panel=PANEL)
def push(
    model: Annotated[Path, typer.Argument(help="folder of a model, or of a run")],
    name: Annotated[str, typer.Argument(help="OWNER/NAME on the Hugging Face Hub; created if it does not exist")],
    private: Annotated[bool, typer.Option("--private", help="create a private repository")] = False,
    message: Annotated[str | None, typer.Option(help="commit message")] = None,
) -> None:
    """Upload a model folder with its card to the Hugging Face Hub, in one commit.

    Writes a README.md first if the folder has none (see dragoman card). Log in with 'hf auth login', or set HF_TOKEN.
    """
    from dragoman.exchange.huggingface.hub import push as push_model

    print(push_model(model, name, private=private, message=message))


@models.command(rich_help_panel=PANEL)
def pull(
    name: Annotated[str, typer.Argument(help="OWNER/NAME on the Hugging Face Hub")],
    out: Annotated[Path, typer.Option(help="output folder")],
    revision: Annotated[str | None, typer.Option(help="branch, tag or commit; default: the latest commit")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Download a model from the Hugging Face Hub: a model folder, or the files of another model for dragoman import.

    Downloads the files of a model folder, or weights, settings and tokenizer of another model; never code. Files
    downloaded before are found without network (HF_HUB_OFFLINE=1).
    """
    from dragoman.exchange.huggingface.hub import own_files
    from dragoman.exchange.huggingface.hub import pull as pull_model

    _check_free(out, overwrite)
    commit = pull_model(name, out, revision=revision)
    further = "" if own_files(out) else f"; to use it: dragoman import {out} --out MODEL"
    print(f"{out}: {name} at {commit}{further}")


def _check_free(out: Path, overwrite: bool) -> None:
    """Refuse to replace what is there unless the user said so.

    Raises:
        UsageError: if a file, or a folder with something in it, is there.
    """
    if not overwrite and out.exists() and not (out.is_dir() and is_empty(out)):
        raise UsageError(f"--out {out}: something is there: name another place; or --overwrite, to replace a model")
