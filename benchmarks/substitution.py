"""Tokens that a core reads in a second with aligned substitution (mt/mrasp.py), tokenising included.

    python -m benchmarks.substitution [--rows 4000] [--rounds 5] [--pieces 8000]

Rows are English text of Almanac's second world, sentences joined until there are 25 to 33 tokens; lexicons lead to five
languages, with the settings of almanac/mrasp: 1,000 words of each, a share of 0.3. A token is one of the text as it
was. Each round reads all rows as a loader's worker does, with and without substitution in turn. Printed are medians of
CPU time, so that others on the machine matter less. At least 200,000 tokens a second are wanted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.almanac import Almanac
from dragoman.mt.lexicon import Lexicon, lexicon_files
from dragoman.mt.mrasp import AlignedSubstitution
from dragoman.mt.noise import NoisyText
from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.batches.randomness import generator
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import SentencePieceTokenizer

TARGETS = ["de", "fr", "ru", "tr", "zh"]
TOKENS = range(25, 34)
WANTED = 200_000


def joined(sentences: Sequence[str], tokenizer: SentencePieceTokenizer, rows: int) -> list[dict[str, Any]]:
    """Return rows of consecutive sentences that have as many tokens as wanted.

    Raises:
        SystemExit: if the sentences give fewer rows.

    """
    found: list[dict[str, Any]] = []
    part: list[str] = []
    for sentence in sentences:
        part.append(sentence)
        text = " ".join(part)
        tokens = len(tokenizer.encode(text))
        if tokens in TOKENS:
            found.append({"id": str(len(found)), "source_text": text, "source_language": "en", "tokens": tokens})
        if tokens >= TOKENS.start:
            part = []
        if len(found) == rows:
            return found
    raise SystemExit(f"{len(sentences)} sentences give {len(found)} rows, fewer than {rows}")


def seconds(field: Field, rows: Sequence[Mapping[str, Any]], round_number: int) -> float:
    """Return the CPU seconds in which a field reads all rows, each with a generator of its own, as a worker does."""
    clock = time.process_time()
    for row in rows:
        field(row, generator(1, round_number, row["id"], "source"))
    return time.process_time() - clock


def main(words: Sequence[str] | None = None) -> None:
    """Print tokens a second with and without substitution, and the share of rows that it changes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pieces", type=int, default=8000)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "almanac")
        sizes = {"monolingual": 6 * given.rows, "dev": 1, "text": 1, "test": 1}
        languages = ["en", *TARGETS]
        pairs = [["en", code] for code in TARGETS]
        layouts = ["monolingual", "lexicons"]
        Almanac(root=root, world=2, languages=languages, pairs=pairs, layouts=layouts, sizes=sizes).write()
        texts = {
            code: (root / "monolingual" / f"train.{code}").read_text(encoding="utf-8").splitlines()
            for code in languages
        }
        everything = [line for lines in texts.values() for line in lines]
        model = train_sentencepiece(everything, Path(name, "pieces"), kind="unigram", size=given.pieces)
        tokenizer = SentencePieceTokenizer(model=str(model), tags=languages)
        files = lexicon_files(folder=str(root / "lexicons"), pairs=pairs)
        lexicon = Lexicon(files=files, top=1000)
        lexicon.load()
    rows = joined(texts["en"], tokenizer, given.rows)
    plain = TextField(column="source_text", tokenizer=tokenizer)
    changed = NoisyText(field=plain, rewriting=AlignedSubstitution(lexicon=lexicon))
    fields: dict[str, Field] = {"as it is": plain, "substituted": changed}
    tokens = sum(row["tokens"] for row in rows)
    times: dict[str, list[float]] = {kind: [] for kind in fields}
    for number in range(given.rounds + 1):
        for kind, field in fields.items():
            used = seconds(field, rows, number)
            if number:  # the first round fills caches
                times[kind].append(used)
    other = sum(
        changed(row, generator(1, 1, row["id"], "source")).tolist() != plain(row, generator(1)).tolist() for row in rows
    )
    print(f"{len(rows):,} rows of {tokens / len(rows):.1f} tokens, {other / len(rows):.0%} of them changed")
    for kind, used in times.items():
        rate = tokens / statistics.median(used)
        low, high = tokens / max(used), tokens / min(used)
        mark = f"   BELOW {WANTED:,}" if rate < WANTED else ""
        print(f"{kind:12}{rate:12,.0f} tokens/s of CPU time ({low:,.0f} to {high:,.0f}){mark}")


if __name__ == "__main__":
    main()
