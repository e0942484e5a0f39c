"""Tokenizers: text to ids and back, with specials and tags outside the pieces.

Text is only ever turned into pieces: a user who types ``<de>`` or ``</s>`` gets the pieces of those characters, never
the symbol. Here ids are laid out as ``[0, P)`` pieces of the model, then the specials, then the tags; tokenizers that
others trained (shared/text) keep the ids that their checkpoints know.

There is no subword regularisation: what SentencePiece samples differs from process to process, however its generator
is seeded, and a random choice here has to be a function of (seed, epoch, row id, field).
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import sentencepiece

from shared.described import Described
from shared.errors import DataError, UsageError
from shared.machine.files import replaced_file
from shared.text import languages
from shared.text.surrogates import find_surrogate

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>", "<mask>", "<sep>", "<blank>")

#: How many texts are tokenised at a time when lengths are counted.
_CHUNK = 16384


class Tokenizer(Protocol):
    """What the corpus, the models and the search know of a tokenizer.

    Attributes:
        pad: id of ``<pad>``.
        bos: id of ``<s>``.
        eos: id of ``</s>``.
        unk: id of ``<unk>``.
        mask: id of ``<mask>``.
        sep: id of ``<sep>``.
        blank: id of ``<blank>`` (of CTC).
        fingerprint: hash of all that decides which ids a text gets.

    """

    pad: int
    bos: int
    eos: int
    unk: int
    mask: int
    sep: int
    blank: int
    fingerprint: str

    @property
    def size(self) -> int:
        """Number of ids, V: pieces, specials and tags."""
        ...

    @property
    def symbols(self) -> list[str]:
        """The specials and tags, by name."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text: pieces and ``<unk>`` only."""
        ...

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of ids of each text, int64."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; specials and tags are left out."""
        ...

    def id(self, symbol: str) -> int:
        """Return the id of a special or tag."""
        ...

    def symbol(self, id: int) -> str:
        """Return the piece, special or tag with this id."""
        ...


class Symbols:
    """The ids behind the pieces: specials and tags. A tokenizer inherits it and calls ``_lay_out``.

    A tag is given as a language code (``de`` becomes ``<de>``) or as it is to be written (``<bt>``).
    """

    _pieces: int
    _symbols: list[str]
    _ids: dict[str, int]

    def _lay_out(self, pieces: int, tags: Sequence[str]) -> None:
        if isinstance(tags, str):
            raise UsageError(f"tags must be a list of language codes or symbols, not {tags!r}")
        symbols = [*SPECIALS, *(t if re.fullmatch(r"<\S+>", t) else languages.tag(t) for t in tags)]
        twice = sorted({symbol for symbol in symbols if symbols.count(symbol) > 1})
        if twice:
            raise UsageError(f"tags must be given once and must not be specials: {', '.join(twice)}")
        self._pieces, self._symbols = pieces, symbols
        self._ids = {symbol: pieces + number for number, symbol in enumerate(symbols)}
        self.pad, self.bos, self.eos, self.unk, self.mask, self.sep, self.blank = (self._ids[s] for s in SPECIALS)

    @property
    def size(self) -> int:
        """Number of ids: pieces, specials and tags."""
        return self._pieces + len(self._symbols)

    @property
    def pieces(self) -> int:
        """Number of pieces, P."""
        return self._pieces

    @property
    def symbols(self) -> list[str]:
        """The specials and tags, by name."""
        return list(self._symbols)

    def id(self, symbol: str) -> int:
        """Return the id of a special or tag.

        Raises:
            DataError: for an unknown symbol, with the known ones.

        """
        if symbol not in self._ids:
            raise DataError(f"the tokenizer has no symbol {symbol!r}, only {' '.join(self._symbols)}")
        return self._ids[symbol]


class SentencePieceTokenizer(Described, Symbols):
    """A SentencePiece model with specials and tags behind its pieces.

    The model's own control symbols and its unknown piece have no id here (``[0, P)`` holds what text can become, in the
    model's order), so that models trained elsewhere, with ``<s>`` and ``</s>`` among their pieces, serve as well.

    Args:
        model: path of the ``.model`` file.
        tags: language codes, or other symbols in angle brackets, in the order of their ids.

    Raises:
        DataError: if the file is missing or not a SentencePiece model, or a code is unknown.
        UsageError: if a tag is given twice or is a special.

    """

    asset_arguments = ("model",)

    def __init__(self, *, model: str, tags: list[str]) -> None:
        path = Path(model)
        if not path.is_file():
            raise DataError(f"{path}: no such tokenizer model")
        content = path.read_bytes()
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(content)
        except RuntimeError as error:
            raise DataError(f"{path}: not a SentencePiece model") from error
        inner = range(self._processor.get_piece_size())
        p = self._processor
        live = [i for i in inner if not (p.is_control(i) or p.is_unknown(i) or p.is_unused(i))]
        self._lay_out(len(live), tags)
        self._to_inner = live
        self._to_outer = [self.unk] * len(inner)
        for outer, i in enumerate(live):
            self._to_outer[i] = outer
        parts = (content, *(symbol.encode() for symbol in self._symbols))
        self.fingerprint = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text: pieces, and ``<unk>`` where the model has neither piece nor bytes.

        Raises:
            DataError: for text that is not valid Unicode (lone surrogates).

        """
        try:
            return [self._to_outer[i] for i in self._processor.encode(text)]
        except RuntimeError as error:
            raise _refusal(text) from error

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of ids of each text, (texts,) int64; uses all processor cores.

        Raises:
            DataError: for text that is not valid Unicode.

        """
        result = np.empty(len(texts), dtype=np.int64)
        for start in range(0, len(texts), _CHUNK):
            part = list(texts[start : start + _CHUNK])
            try:
                encoded = self._processor.encode(part)
            except (RuntimeError, TypeError) as error:
                raise next(map(_refusal, filter(find_surrogate, part)), error) from error
            result[start : start + len(part)] = [len(ids) for ids in encoded]
        return result

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; specials and tags are left out, bytes that are not UTF-8 become U+FFFD.

        Raises:
            ValueError: for an id outside the vocabulary.

        """
        inner = []
        for id in ids:
            id = int(id)
            if not 0 <= id < self.size:
                raise ValueError(f"id {id} is outside the vocabulary of {self.size}")
            if id < self._pieces:
                inner.append(self._to_inner[id])
        return self._processor.decode(inner)

    def symbol(self, id: int) -> str:
        """Return the piece (``▁`` stands for a space), special or tag with this id.

        Raises:
            ValueError: for an id outside the vocabulary.

        """
        if not 0 <= id < self.size:
            raise ValueError(f"id {id} is outside the vocabulary of {self.size}")
        return (
            self._processor.id_to_piece(self._to_inner[id]) if id < self._pieces else self._symbols[id - self._pieces]
        )


def _refusal(text: str) -> DataError:
    return DataError(f"{'not valid Unicode' if find_surrogate(text) else 'cannot be tokenised'}: {text!r}")


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
        raise DataError(f"{out}: {_refusal(text)}")
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


def check_balance(alpha: float, limit: int | None) -> None:
    """Raise the UsageError of :func:`balanced` for an argument out of its range."""
    if not 0 <= alpha <= 1:
        raise UsageError(f"alpha must be between 0 and 1, not {alpha}")
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be positive, not {limit}")


def balanced(texts: Mapping[str, Sequence[str]], *, alpha: float, seed: int, limit: int | None = None) -> Iterator[str]:
    """Draw texts with the smaller languages oversampled, to train a shared tokenizer on.

    Language l with n_l of N texts gets the share n_l^alpha / sum_k n_k^alpha of min(N, limit) draws (Conneau and Lample
    2019, section 3.1). Texts are drawn without repetition until a language has given each of its own once more.

    Args:
        texts: texts by language; languages without texts are passed over.
        alpha: 1 leaves shares as they are, 0 makes them equal.
        seed: of the draw.
        limit: the most texts to draw, or None for as many as there are.

    Yields:
        Texts, language by language.

    Raises:
        UsageError: if alpha is not in [0, 1] or the limit is not positive.

    """
    check_balance(alpha, limit)
    names = [name for name in texts if len(texts[name])]
    if not names:
        return
    sizes = np.array([len(texts[name]) for name in names])
    total = int(min(sizes.sum(), limit or sizes.sum()))
    shares = smoothed_counts(sizes, alpha, total)
    for number, (name, count) in enumerate(zip(names, shares.tolist(), strict=True)):
        rng = np.random.default_rng([seed, number])
        while count > 0:
            for index in rng.permutation(len(texts[name]))[:count].tolist():
                yield texts[name][index]
            count -= len(texts[name])


def smoothed_counts(sizes: np.ndarray, alpha: float, total: int) -> np.ndarray:
    """Divide ``total`` draws among parts of these sizes, in proportion to size^alpha; the remainders go to the largest.

    Args:
        sizes: (parts,) int, positive.
        alpha: exponent; 1 is proportional, 0 equal.
        total: number of draws.

    Returns:
        (parts,) int64 that add up to ``total``.

    """
    weights = np.asarray(sizes, dtype=np.float64) ** alpha
    exact = weights / weights.sum() * total
    counts = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - counts), kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    return counts
