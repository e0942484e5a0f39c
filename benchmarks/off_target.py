"""Share of texts of each length whose language shared/evaluation/off_target.py can tell, and how often it errs.

    python benchmarks/off_target.py de=test.de en=test.en fr=test.fr

Each file is text of one language, a sentence a line. Every line is judged, and a part of it of 2, 3, 4 and 6 words.
"""

import random
import sys
import time
from pathlib import Path

from dragoman.shared.evaluation.off_target import judge

BOUNDS = [1, 5, 10, 15, 20, 30, 50, 100, 10**9]


def texts(path: Path) -> list[str]:
    found = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        words = line.split()
        if words:
            start = random.Random(line).randrange(len(words))
            found += [line.strip(), *(" ".join(words[start : start + length]) for length in (2, 3, 4, 6))]
    return found


def main() -> None:
    files = [argument.partition("=") for argument in sys.argv[1:]]
    in_play = sorted({code for code, _, _ in files})
    counts = {bound: [0, 0, 0] for bound in BOUNDS[:-1]}  # texts, judged, wrong
    started, characters = time.perf_counter(), 0
    for code, _, name in files:
        lines = texts(Path(name))
        result = judge(lines, code, in_play)
        wrong = set(result.wrong)
        characters += sum(map(len, lines))
        for number, (line, found) in enumerate(zip(lines, result.codes, strict=True)):
            cell = counts[max(bound for bound in BOUNDS if bound <= len(line))]
            cell[0] += 1
            cell[1] += found is not None
            cell[2] += number in wrong
    print("characters     texts  judged  of these wrong")
    for (low, (every, judged, wrong)), high in zip(counts.items(), BOUNDS[1:], strict=True):
        if every:
            share = wrong / judged if judged else 0.0
            upper = f"to {high - 1}" if high < 10**9 else ""
            print(f"{low:4} {upper:6} {every:8}  {judged / every:6.0%}  {share:14.2%}")
    print(f"{characters / (time.perf_counter() - started):,.0f} characters a second, the model's loading included")


if __name__ == "__main__":
    main()
