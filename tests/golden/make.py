"""The program that made the folder ``model`` and ``translations.json`` beside this file, in some seconds on one core.

Run from the root of the repository, only when the format of model folders is changed on purpose (then keep the old
folder under another name, and a test that it still loads)::

    OMP_NUM_THREADS=1 python -m tests.golden.make

What the model learns: two English number words become the German ones in reverse order.
"""

import itertools
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

from dragoman import BeamSearch, Rules, System
from dragoman.shared.batches.loader import collate
from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.objectives import CrossEntropy, Ctc, EncoderDecoderObjective
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small

HERE = Path(__file__).parent
WORDS = "one two three four five six seven eight".split()
WORTE = "eins zwei drei vier fünf sechs sieben acht".split()
WIDTH = 24

#: What is asked of the model: pairs, one of them written for the normaliser; a blank; and what it never learnt.
QUESTIONS = ["one two", "eight seven", "five five", "\ufeffｓｉｘ\u00a0 three", "", "one two three", "nine"]
SEARCH = {"beam": 3, "n_best": 2, "length_penalty": 0.6}
LONGEST = 24


def system(folder: Path) -> System:
    """Build the system with fresh parameters."""
    texts = [*WORDS, *WORTE] * 3
    model = train_sentencepiece(texts, folder / "tokenizer.model", kind="unigram", size=290, byte_fallback=True)
    tokenizer = SentencePieceTokenizer(model=str(model), tags=["en", "de"])
    torch.manual_seed(1)
    sizes = {"width": WIDTH, "heads": 4, "feedforward": 64}
    heads = {"ctc": CtcHead(tap=1, width=WIDTH, vocabulary=tokenizer.size, blank=tokenizer.blank)}
    encoder = small.encoder(1, [1], **sizes)
    return small.system(tokenizer, small.translator(tokenizer, sizes=sizes, encoder=encoder, heads=heads))


def train(translator: System, updates: int = 400, between: str = " ") -> None:
    """Train on most pairs, all of them in every batch, with something between the words."""
    rows = []
    for number, (i, j) in enumerate(itertools.product(range(8), repeat=2)):
        if number % 7 != 5:
            rows.append(small.row(number, between.join((WORDS[i], WORDS[j])), between.join((WORTE[j], WORTE[i]))))
    fields = {"target": translator.output, **translator.inputs}
    batch = collate(rows, fields, np.random.default_rng(0))
    parts = [CrossEntropy(label_smoothing=0.1), Ctc(field="source", weight=0.3)]
    objective = EncoderDecoderObjective(system=translator, parts=parts).train()
    optimizer = torch.optim.Adam(objective.parameters())
    for update in range(updates):
        for group in optimizer.param_groups:
            group["lr"] = 0.006 * min((update + 1) / 50, (updates - update) / (updates - 50))
        optimizer.zero_grad()
        loss = objective(batch).total()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        optimizer.step()
        if update % 50 == 49:
            print(f"{update + 1}: {loss.item():.3f}")


def answers(translator: System) -> list[dict]:
    """Translate the questions."""
    found = translator.hypotheses(QUESTIONS, search=BeamSearch(**SEARCH, rules=Rules(maximum_length_extra=LONGEST)))
    texts = [[{"text": h.texts["translation"], "score": h.score} for h in hypotheses] for hypotheses in found]
    pairs = zip(QUESTIONS, texts, strict=True)
    return [{"source": question, "hypotheses": hypotheses} for question, hypotheses in pairs]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        made = system(Path(temporary))
        train(made)
        made.save(HERE / "model")
    search = SEARCH | {"maximum_length_extra": LONGEST}
    content = {"search": search, "translations": answers(System.load(HERE / "model"))}
    (HERE / "translations.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
