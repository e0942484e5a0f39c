"""Code-switching restore (CSR): between denoising and fine-tuning, a translator learns to undo switched words.

Zan et al. 2022, "Bridging Cross-Lingual Gaps During Leveraging the Multilingual Sequence-to-Sequence Pretraining for
Text Generation and Understanding", section 3. In both sides of a parallel corpus, X and Y, spans of words are replaced
by their translations into the other language; the model restores the sentences,

    L = - sum log P(X | X') - sum log P(Y | Y'),

from both sides by turns: two streams of equal weight. Translation is learned after that, on the same corpus.

Differs from the paper: the two sides alternate batch by batch, not by the parity of sentences.

Differs from the released script: whole words are switched, where it switches pieces that were seen five times; a span
without words puts no mask into the text; its second stage takes 30,000 updates, here the paper's 25,000.

Not established: which lexicon the paper's numbers come from. It induces its own from the two sides of the bitext and
cites VecMap of 2018; the released script has the settings of 2017 (text/lexicon has both), and takes the least similar
words. Chosen here: the schedule of restoring, which is that of fine-tuning with a fifth of the updates and of the
warm-up.

The table of transfer to other languages (table 3) is ``text/transfer``, by its arm ``csr``.

Not implemented: summarisation (NCLS) and inference (XNLI).
"""

from __future__ import annotations

import numpy as np

from dragoman.mt.lexicon import Lexicon
from dragoman.mt.noise import SpanDraw
from dragoman.shared.annotations import Checked
from dragoman.shared.batches.manifest import Row
from dragoman.shared.batches.rewriting import Edit
from dragoman.shared.errors import DataError
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.text.word_spans import has_capital_of_sentence, words


class CodeSwitchedSpans(Checked):
    """Spans of words are replaced, word by word, by their translations into the language of the row's other side.

    Spans are drawn as in mBART's infilling (``SpanDraw``), until they cover the share of the text's words; words in
    them that the lexicon does not have stay as they are. So, of the words that it has, the share is replaced. (The
    authors' script switches pieces, takes the least similar words of its lexicon, and puts a mask where a span has no
    words; that is not repeated here.)

    Args:
        lexicon: with both directions of the pair.
        share: of a text's words in spans, rounded up: 0.35.
        mean_length: of spans, in words: 3.5.
        top: how many of a word's translations, from the first, are drawn from: 3.
        growth: at most how many times as many pieces the text may have afterwards; some words stay where it has more.
    """

    def __init__(
        self,
        *,
        lexicon: Lexicon,
        share: float = 0.35,
        mean_length: float = 3.5,
        top: PositiveInt = 3,
        growth: float = 1.5,
    ) -> None:
        self.lexicon = lexicon
        self._spans = SpanDraw(share=share, mean_length=mean_length)
        self.top = top
        self.growth = growth

    def load(self) -> None:
        """Read the lexicon."""
        self.lexicon.load()

    def __call__(self, text: str, rng: np.random.Generator, *, language: str | None, row: Row) -> list[Edit]:
        """Return the words that are replaced, in a random order.

        Raises:
            DataError: if the row does not name both languages, or the lexicon lacks the direction.
        """
        sides = row.get("source_language"), row.get("target_language")
        other = sides[0] if language == sides[1] else sides[1]
        if not language or not other:
            raise DataError(f"row {row.get('id')!r} does not name the languages of both sides")
        if (language, other) not in self.lexicon.pairs:
            raise DataError(
                f"row {row.get('id')!r}: the lexicon has no translations from {language!r} into {other!r}, only "
                f"{', '.join('-'.join(pair) for pair in sorted(self.lexicon.pairs))}"
            )
        places = words(text, language, self.lexicon.entries(language), self.lexicon.longest(language))
        edits = []
        for start, end in (places[n] for span in self._spans(len(places), rng) for n in range(*span)):
            candidates = self.lexicon.candidates(text[start:end], language, (other,))[: self.top]
            if candidates:
                chosen = candidates[int(rng.integers(len(candidates)))]
                new = self.lexicon.written(chosen, capital=has_capital_of_sentence(text, start))
                edits.append((start, end, new))
        return [edits[number] for number in rng.permutation(len(edits)).tolist()]
