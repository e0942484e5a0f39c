"""The commands that import, trim, export and share models. Like shared/cli.py, it imports nothing heavy at the top."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shared.errors import UsageError

models = typer.Typer()
PANEL = "Import and export of models"


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
) -> None:
    r"""Convert a fairseq or Hugging Face checkpoint to a model folder, and report which tensors were loaded.

    fairseq: Transformers of all kinds for text, mRASP, mRASP2, mBART, mBART-50, BART, RoBERTa, XLM-R; for speech, S2T
    Transformers, wav2vec, and wav2vec 2.0, XLSR and XLS-R, pre-trained or fine-tuned with CTC. Hugging Face: BERT,
    RoBERTa, XLM-R, BART, mBART, mBART-50, M2M-100, NLLB, MarianMT; for speech, Speech2Text, wav2vec 2.0, XLSR, XLS-R
    and HuBERT, pre-trained or fine-tuned with CTC. Neither fairseq nor transformers is needed, and no code in the files
    is run; a Hub model is downloaded (pip install 'dragoman\[hf]'). See docs/from_fairseq.md and
    docs/from_huggingface.md.
    """
    from shared.exchange.importing import import_model

    report = import_model(
        source,
        out,
        allow=allow or [],
        dictionary=dictionary,
        pieces=pieces,
        source_languages=source_languages.split(",") if source_languages else None,
        target_languages=target_languages.split(",") if target_languages else None,
    )
    for line in report.lines():
        print(line)


@models.command(rich_help_panel=PANEL)
def trim(
    model: Annotated[Path, typer.Argument(help="model folder")],
    manifests: Annotated[list[str], typer.Option(help="manifest (*.arrow) or glob pattern; repeatable")],
    out: Annotated[Path, typer.Option(help="model folder to write")],
) -> None:
    """Remove vocabulary pieces that no text in the manifests uses; keeps tags, specials and single bytes.

    Texts that use only kept pieces are tokenised as before, and the logits of kept pieces do not change. Probabilities
    rise slightly, since they are normalised over fewer pieces, so that the order of two close hypotheses can change.
    """
    from shared.systems.trimming import trim as trim_model

    print(f"{out}: {trim_model(model, manifests, out)}")


@models.command(rich_help_panel=PANEL)
def export(
    model: Annotated[Path, typer.Argument(help="model folder")],
    out: Annotated[Path, typer.Option(help="output folder")],
    format: Annotated[str, typer.Option(help="ctranslate2 or huggingface")] = "ctranslate2",
    quantization: Annotated[
        str, typer.Option(help="float32, float16, bfloat16, int16, int8, int8_float16, ...")
    ] = "float32",
    compare: Annotated[
        list[Path] | None,
        typer.Option(help="manifest to translate with both engines, to count the outputs that differ; repeatable"),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="number of rows per manifest to compare; 0: all")] = 0,
) -> None:
    """Convert a model for another engine: CTranslate2 (text translators) or Hugging Face transformers.

    transformers gets text translators, and encoders of waveforms (wav2vec 2.0 and its relatives). A part that the
    engine does not support (speech with a decoder, several memories, other layers) is an error. --quantization,
    --compare and --limit apply to ctranslate2 only.
    """
    from shared.exchange.exporting import FORMATS

    if format not in FORMATS:
        raise UsageError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    FORMATS[format](model, out, quantization=quantization, compare=compare or [], limit=limit)


@models.command(rich_help_panel=PANEL)
def card(
    model: Annotated[Path, typer.Argument(help="model folder")],
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
    from shared.exchange.card import write_card

    print(write_card(model, name=name, license=license, results=results))


@models.command(rich_help_panel=PANEL)
def push(
    model: Annotated[Path, typer.Argument(help="model folder")],
    name: Annotated[str, typer.Argument(help="OWNER/NAME on the Hugging Face Hub; created if it does not exist")],
    private: Annotated[bool, typer.Option("--private", help="create a private repository")] = False,
    message: Annotated[str | None, typer.Option(help="commit message")] = None,
) -> None:
    """Upload a model folder with its card to the Hugging Face Hub, in one commit.

    Writes a README.md first if the folder has none (see dragoman card). Log in with 'hf auth login', or set HF_TOKEN.
    """
    from shared.exchange.hub import push as push_model

    print(push_model(model, name, private=private, message=message))


@models.command(rich_help_panel=PANEL)
def pull(
    name: Annotated[str, typer.Argument(help="OWNER/NAME on the Hugging Face Hub")],
    out: Annotated[Path, typer.Option(help="output folder")],
    revision: Annotated[str | None, typer.Option(help="branch, tag or commit; default: the latest commit")] = None,
) -> None:
    """Download a model from the Hugging Face Hub: a model folder, or the files of another model for dragoman import.

    Downloads the files of a model folder, or weights, settings and tokenizer of another model; never code. Files
    downloaded before are found without network (HF_HUB_OFFLINE=1).
    """
    from shared.exchange.hub import own_files
    from shared.exchange.hub import pull as pull_model

    commit = pull_model(name, out, revision=revision)
    further = "" if own_files(out) else f"; to use it: dragoman import {out} --out MODEL"
    print(f"{out}: {name} at {commit}{further}")
