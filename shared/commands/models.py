"""The commands that bring models in and hand them on; like shared/cli.py it imports nothing heavy before one runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shared.errors import UsageError

models = typer.Typer()
PANEL = "Models in and out"


@models.command("import", rich_help_panel=PANEL)
def import_(
    source: Annotated[
        Path,
        typer.Argument(
            help="a fairseq checkpoint, or a folder with one and its dictionaries; a folder in Hugging Face's layout, "
            "or the name of a model on its Hub (Helsinki-NLP/opus-mt-en-de)"
        ),
    ],
    out: Annotated[Path, typer.Option(help="the model folder to write")],
    allow: Annotated[
        list[str] | None, typer.Option(help="beginning of names of tensors that need not match; may be repeated")
    ] = None,
    dictionary: Annotated[
        Path | None, typer.Option(help="a dict.txt, or a folder of them; default: beside SOURCE")
    ] = None,
    pieces: Annotated[
        Path | None,
        typer.Option(
            help="SentencePiece model, file of BPE codes, folder with encoder.json and vocab.bpe, or: words; "
            "default: beside SOURCE"
        ),
    ] = None,
    source_languages: Annotated[str | None, typer.Option(help="codes (en,de), if the checkpoint does not say")] = None,
    target_languages: Annotated[str | None, typer.Option(help="likewise")] = None,
) -> None:
    r"""Turn a checkpoint of others into a model folder, and report what became of each of its tensors.

    fairseq: Transformers of all kinds for text, mRASP, mRASP2, mBART, mBART-50, BART, RoBERTa, XLM-R; for speech, S2T
    Transformers, wav2vec 2.0, XLSR and XLS-R, pre-trained or fine-tuned with CTC. Hugging Face: BERT, RoBERTa, XLM-R,
    BART, mBART, mBART-50, M2M-100, NLLB, MarianMT; for speech, Speech2Text, wav2vec 2.0, XLSR and XLS-R, pre-trained or
    fine-tuned with CTC. Neither fairseq nor transformers is needed, and nothing in the files is run; a name on the Hub
    is downloaded (pip install 'dragoman\[hf]'). See docs/from_fairseq.md and docs/from_huggingface.md.
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
    model: Annotated[Path, typer.Argument(help="a model folder")],
    manifests: Annotated[list[str], typer.Option(help="manifests (*.arrow) or a pattern; may be repeated")],
    out: Annotated[Path, typer.Option(help="the model folder to write")],
) -> None:
    """Keep only the pieces of a model's vocabulary that manifests use, with its tags, specials and single bytes.

    Texts that need no other piece are read as before, and logits of what is kept do not change. Probabilities rise a
    little, shared among fewer, so that a translation between two near equals can change.
    """
    from shared.systems.trimming import trim as trim_model

    print(f"{out}: {trim_model(model, manifests, out)}")


@models.command(rich_help_panel=PANEL)
def export(
    model: Annotated[Path, typer.Argument(help="a model folder")],
    out: Annotated[Path, typer.Option(help="folder to write")],
    format: Annotated[str, typer.Option(help="ctranslate2 or huggingface")] = "ctranslate2",
    quantization: Annotated[
        str, typer.Option(help="float32, float16, bfloat16, int16, int8, int8_float16, ...")
    ] = "float32",
    compare: Annotated[
        list[Path] | None,
        typer.Option(help="a manifest to translate with both, to see how many outputs differ; may be repeated"),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="only so many rows of it; 0: all")] = 0,
) -> None:
    """Write a text translator for another engine: CTranslate2, or transformers of Hugging Face.

    What has no equal there (speech, more than one memory, other layers) is refused by name. --quantization, --compare
    and --limit are for ctranslate2.
    """
    from shared.exchange.exporting import FORMATS

    if format not in FORMATS:
        raise UsageError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    FORMATS[format](model, out, quantization=quantization, compare=compare or [], limit=limit)


@models.command(rich_help_panel=PANEL)
def card(
    model: Annotated[Path, typer.Argument(help="a model folder")],
    name: Annotated[str | None, typer.Option(help="what it is called on the Hub: OWNER/NAME")] = None,
    license: Annotated[str | None, typer.Option(help="its short name on the Hub: apache-2.0, cc-by-4.0, ...")] = None,
    results: Annotated[
        Path | None, typer.Option(help="output folder of the run that made it, or a results.jsonl: its scores")
    ] = None,
) -> None:
    """Write a model folder's README.md: what the model does, how to use it, its scores; with metadata for the Hub.

    It is made of the folder and the results alone, without network, and may be edited: push uploads what is there.
    """
    from shared.exchange.card import write_card

    print(write_card(model, name=name, license=license, results=results))


@models.command(rich_help_panel=PANEL)
def push(
    model: Annotated[Path, typer.Argument(help="a model folder")],
    name: Annotated[str, typer.Argument(help="OWNER/NAME on the Hugging Face Hub; made if there is none")],
    private: Annotated[bool, typer.Option("--private", help="nobody else may see it")] = False,
    message: Annotated[str | None, typer.Option(help="of the commit")] = None,
) -> None:
    """Upload a model folder to the Hugging Face Hub: its own files, in one commit, with its card.

    Without a README.md (see dragoman card) the folder is given one. Log in with 'hf auth login', or set HF_TOKEN.
    """
    from shared.exchange.hub import push as push_model

    print(push_model(model, name, private=private, message=message))


@models.command(rich_help_panel=PANEL)
def pull(
    name: Annotated[str, typer.Argument(help="OWNER/NAME on the Hugging Face Hub")],
    out: Annotated[Path, typer.Option(help="the folder to write")],
    revision: Annotated[str | None, typer.Option(help="branch, tag or commit; by default the newest")] = None,
) -> None:
    """Fetch a model folder from the Hugging Face Hub; or the files of another kind of model, for dragoman import.

    Only the files of a model folder are fetched, of others weights, settings and tokenizers; never code. What was
    fetched before is found again without network (HF_HUB_OFFLINE=1).
    """
    from shared.exchange.hub import own_files
    from shared.exchange.hub import pull as pull_model

    commit = pull_model(name, out, revision=revision)
    further = "" if own_files(out) else f"; to use it: dragoman import {out} --out MODEL"
    print(f"{out}: {name} at {commit}{further}")
