"""Training of SentencePiece models."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterable
from pathlib import Path

import sentencepiece

from shared.errors import DataError, UsageError
from shared.machine.files import replaced_file
from shared.text.surrogates import find_surrogate
from shared.text.tokenizer import refusal


def train_sentencepiece(
    texts: Iterable[str],
    out: Path,
    *,
    kind: str,
    size: int,
    coverage: float = 1.0,
    byte_fallback: bool = True,
    normalisation: str = "nmt_nfkc",
) -> Path:
    """Train a SentencePiece model; the same texts in the same order give the same file.

    Training runs in one thread, because the model depends on the number of threads. If the texts do not have ``size``
    different pieces in them, the model has fewer, and a warning in the log says how many.

    Args:
        texts: sentences; blank ones are passed over. All are held in memory.
        out: path of the ``.model`` file; it is replaced only by a complete one.
        kind: "unigram" (Kudo 2018), "bpe" (Sennrich et al. 2016) or "char".
        size: number of pieces in the model, with its unknown piece and, with byte fallback, 256 bytes.
        coverage: share of the characters of the texts that get a piece of their own, for large scripts 0.9995.
        byte_fallback: write characters without a piece as UTF-8 bytes, so that nothing is unknown.
        normalisation: SentencePiece's rule: "nmt_nfkc" (its default and that of most published systems; it rewrites
            full-width punctuation and "…"), "nfkc", "nmt_nfkc_cf", "nfkc_cf" (both fold case), or "identity".

    Returns:
        ``out``.

    Raises:
        DataError: if there is no text, or more characters than ``size`` has room for.
        UsageError: for an argument out of its range.

    """
    check_training(kind=kind, size=size, coverage=coverage, byte_fallback=byte_fallback, normalisation=normalisation)
    sentences = [text for text in texts if text and not text.isspace()]
    if not sentences:
        raise DataError(f"{out}: there is no text to train a tokenizer on")
    for text in filter(find_surrogate, sentences):
        raise DataError(f"{out}: {refusal(text)}")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            character_coverage=coverage,
            byte_fallback=byte_fallback,
            normalization_rule_name=normalisation,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            hard_vocab_limit=False,
            num_threads=1,
            max_sentence_length=1 << 30,  # the default, 4192 bytes, drops longer texts without a word
            minloglevel=2,
        )
    except RuntimeError as error:
        raise DataError(f"{out}: {_training_problem(kind, size, error)}") from error
    out = Path(out)
    with replaced_file(out) as temporary:
        temporary.write_bytes(model.getvalue())
    real = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size()
    if real < size:
        logging.getLogger("dragoman").warning(
            "%s: the text has only %d of the %d pieces that were asked for", out, real, size
        )
    return out


def _training_problem(kind: str, size: int, error: Exception) -> str:
    needed = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
    if needed:
        return (
            f"a {kind} tokenizer of {size} pieces has no room for the characters of the text: "
            f"give a size above {needed[1]}, or a coverage below 1"
        )
    return f"cannot train a {kind} tokenizer of {size} pieces: {' '.join(str(error).split())}"


def check_training(
    *, kind: str, size: int, coverage: float, byte_fallback: bool = True, normalisation: str = "nmt_nfkc"
) -> None:
    """Raise the UsageError of :func:`train_sentencepiece` for an argument out of its range."""
    kinds, rules = ("unigram", "bpe", "char"), ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")
    if kind not in kinds:
        raise UsageError(f"kind must be one of {', '.join(kinds)}, not {kind!r}")
    if normalisation not in rules:
        raise UsageError(f"normalisation must be one of {', '.join(rules)}, not {normalisation!r}")
    if not 0.98 <= coverage <= 1:
        raise UsageError(f"coverage must be between 0.98 and 1, not {coverage}")
    smallest = 1 + 256 * byte_fallback
    if size <= smallest:
        raise UsageError(f"size must be above {smallest}, not {size}")
