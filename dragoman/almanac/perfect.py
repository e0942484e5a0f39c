"""Scores of a perfect system on the tests of the second world: python -m dragoman.almanac.perfect FOLDER.

It knows the meaning of the source, and says it in a phrasing that it draws. Against all references its BLEU is 100;
against the first alone it is what differs between two speakers who say the same. FOLDER holds TEST.LANGUAGE and
TEST.LANGUAGE.1, .2, ... (test.de, tst-COMMON.de), or folders that do.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dragoman.almanac.frames import randomness
from dragoman.shared.errors import DataError


def perfect_scores(file: Path) -> tuple[float, float]:
    """BLEU of a drawn reference against the first, and against all. Raises DataError for a file with one reference."""
    from sacrebleu.metrics import BLEU

    further = sorted(file.parent.glob(f"{file.name}.[0-9]*"))
    if not further:
        raise DataError(f"{file}: no further references ({file.name}.1) are beside it")
    references = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in (file, *further)]
    generator = randomness("perfect", file.name)
    drawn = [generator.choice(texts) for texts in zip(*references, strict=True)]
    bleu = BLEU(tokenize="zh" if file.suffix == ".zh" else "13a")
    return bleu.corpus_score(drawn, references[:1]).score, bleu.corpus_score(drawn, references).score


def main(folder: str) -> None:
    """Print a line for each test and language."""
    stems = [path.with_suffix("") for path in Path(folder).rglob("*.*.1")]
    files = sorted(path for path in stems if path.name.startswith(("test", "tst-")))
    if not files:
        raise DataError(f"{folder}: no tests with further references (test.de.1)")
    print("test\tBLEU against one reference\tagainst all")
    for file in files:
        one, several = perfect_scores(file)
        print(f"{file.relative_to(folder)}\t{one:.1f}\t{several:.1f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m dragoman.almanac.perfect FOLDER")
    try:
        main(sys.argv[1])
    except DataError as error:
        sys.exit(f"error: {error}")
