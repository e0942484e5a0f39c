"""Training of SentencePiece models."""

from __future__ import annotations

import io
import logging
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sentencepiece

from dragoman.shared.errors import DataError, UsageError, check_number
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.text.piece_file import NFC, charsmap, composed, renamed
from dragoman.shared.text.surrogates import find_surrogate
from dragoman.shared.text.tokenizer import refusal

KINDS = ("unigram", "bpe", "char")
RULES = (NFC, "identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf")
#: Ten times as many as the largest published vocabularies have; SentencePiece's loops take minutes beyond.
MOST_PIECES = 10_000_000


def train_sentencepiece(
    texts: Iterable[str],
    out: Path,
    *,
    kind: str,
    size: int,
    coverage: float = 1.0,
    byte_fallback: bool = True,
    normalisation: str = NFC,
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
        normalisation: what is done to texts: "nfc" (shared/text/piece_file.py), or SentencePiece's "identity",
            "nmt_nfkc" (its default and that of most published systems; it rewrites full-width punctuation and "…"),
            "nfkc", "nmt_nfkc_cf" or "nfkc_cf" (both fold case).

    Returns:
        ``out``.

    Raises:
        DataError: if there is no text, or more characters than ``size`` has room for.
        UsageError: for an argument out of its range.
    """
    options: dict[str, Any] = {"kind": kind, "size": size, "coverage": coverage, "byte_fallback": byte_fallback}
    content = trained_sentencepiece(texts, out, **options, normalisation=normalisation)
    out = Path(out)
    with replaced_file(out) as temporary:
        temporary.write_bytes(content)
    real = sentencepiece.SentencePieceProcessor(model_proto=content).get_piece_size()
    if real < size:
        logging.getLogger("dragoman").warning(
            "%s: the text has only %d of the %d pieces that were asked for", out, real, size
        )
    return out


def trained_sentencepiece(
    texts: Iterable[str],
    named: Path,
    *,
    kind: str,
    size: int,
    coverage: float = 1.0,
    byte_fallback: bool = True,
    normalisation: str = NFC,
    unknown: bool = True,
) -> bytes:
    """Train a SentencePiece model and return the content of its file; see :func:`train_sentencepiece`.

    Args:
        texts: sentences.
        named: the file that errors name.
        kind: see there, as the following ones.
        size: of all pieces.
        coverage: of characters.
        byte_fallback: bytes for other characters.
        normalisation: of texts.
        unknown: the unknown piece is counted in the size.
    """
    total = size + (not unknown)
    check_training(kind=kind, size=total, coverage=coverage, byte_fallback=byte_fallback, normalisation=normalisation)
    sentences = [text for text in texts if text and not text.isspace()]
    if not sentences:
        raise DataError(f"{named}: there is no text to train a tokenizer on")
    for text in filter(find_surrogate, sentences):
        raise DataError(f"{named}: {refusal(text)}")
    if normalisation == NFC:
        sentences = [*map(composed, sentences)]
    try:
        return _trained(
            sentences,
            normalisation,
            model_type=kind,
            vocab_size=total,
            character_coverage=coverage,
            byte_fallback=byte_fallback,
        )
    except RuntimeError as error:
        raise DataError(f"{named}: {_training_problem(kind, size, unknown, error)}") from error


def _trained(sentences: list[str], rule: str, **options: Any) -> bytes:
    """Return the content of a model file."""
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="ascii") as file:
        file.write(charsmap())
        file.flush()
        options |= {"normalization_rule_tsv": file.name} if rule == NFC else {"normalization_rule_name": rule}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            hard_vocab_limit=False,
            num_threads=1,
            max_sentence_length=1 << 30,  # the default, 4192 bytes, drops longer texts without a word
            minloglevel=2,
            **options,
        )
    return renamed(model.getvalue(), NFC) if rule == NFC else model.getvalue()


def _training_problem(kind: str, size: int, unknown: bool, error: Exception) -> str:
    needed = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
    if needed:
        return (
            f"a {kind} tokenizer of {size} pieces has no room for the characters of the text: "
            f"give a size above {int(needed[1]) - (not unknown)}, or a coverage below 1"
        )
    return f"cannot train a {kind} tokenizer of {size} pieces: {' '.join(str(error).split())}"


def check_training(
    *, kind: str, size: int, coverage: float, byte_fallback: bool = True, normalisation: str = NFC
) -> None:
    """Raise the UsageError of :func:`train_sentencepiece` for an argument out of its range."""
    if kind not in KINDS:
        raise UsageError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if normalisation not in RULES:
        raise UsageError(f"normalisation must be one of {', '.join(RULES)}, not {normalisation!r}")
    if not 0.98 <= coverage <= 1:
        raise UsageError(f"coverage must be between 0.98 and 1, not {coverage}")
    smallest = 1 + 256 * byte_fallback
    within = "the unknown piece and the 256 bytes" if byte_fallback else "the unknown piece"
    check_number(f"pieces (in which {within} are counted)", size, above=smallest, most=MOST_PIECES)
