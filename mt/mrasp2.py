"""mRASP2: sentences that mean the same get similar vectors, whatever their language, while translation is learned.

Pan et al. 2021, "Contrastive Learning for Many-to-many Multilingual Neural Machine Translation", section 2; also called
mCOLT. To the cross entropy of translation comes, over a batch of sentences x_i with translations y_i,

    L_ctr = - sum_i log ( exp(cos(R(x_i), R(y_i)) / tau) / sum_j exp(cos(R(x_i), R(y_j)) / tau) ),

where R is the mean of the encoder's states, those of the language's symbol and of </s> included. Sources are changed by
aligned substitution (mt/mrasp.py) with a lexicon of all languages, and so is monolingual text, whose "translation" is
the text itself. Of a monolingual text in which no word was replaced, some become masks, as in the authors' code: or a
model would learn to copy.

Differs from the authors' code: a word's languages, and its translations into one, are drawn evenly, where the code
draws those that are fewer steps away more often; the code masks pieces, and words are masked here. A sentence and its
copy in a batch count as different. Pairs are read with replaced words alone, where the older script (mRASP's) keeps
those as they are beside them. A run whose batches have fewer than 16 rows is warned of.

Not established, and chosen here: the share of replaced words (0.9 and, of masks, 0.2 are those of the authors' second
implementation; their script has 0.15), the depth of the dictionary of all languages (files of depth 1 to 3 were
published; here 2, through English), the size of the vocabulary (mRASP's), the number of updates.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.objectives.contrastive import contrastive
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Encode, Part
from dragoman.shared.ranges import NonNegativeFloat, PositiveFloat
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System

#: Translations that a source is compared with, below which the log has a warning: the authors' batches have some 50.
FEW = 16


class Contrast(Part):
    """The contrastive loss between sources and translations, per sentence.

    Terms: "contrast" (nats), and reported only: "contrast_accuracy" (share of sources to which no other translation is
    more similar than their own) and "contrast_candidates" (mean number of translations that a source is compared with,
    of which by chance one is found). They are those of the same batch on the same process: the number of rows in a
    batch is a setting of the method, and gradient accumulation does not raise it. The authors' code adds ``weight *
    L_ctr * tokens / sentences`` to the sum over tokens, and divides by tokens: this is the same.

    Args:
        temperature: tau; 0.1.
        weight: factor of the term in the loss; 1.
        source: batch field of the sources, which are text.
        translation: batch field of the translations, which the encoder reads as it reads sources: "target" is what the
            decoder writes, and needs the same pieces, with the same symbols around them.
        reuse: take the states that the cross entropy reads for R(x). By default the encoder runs once more on sources,
            as in the authors' code, so that dropout differs.
        prefix: put before the names of the terms.
    """

    compares_rows = True

    def __init__(
        self,
        *,
        temperature: PositiveFloat = 0.1,
        weight: NonNegativeFloat = 1.0,
        source: str = "source",
        translation: str = "target",
        reuse: bool = False,
        prefix: str = "",
    ) -> None:
        super().__init__(source=source)
        self.sources = source
        self.temperature = temperature
        self.weight = weight
        self.translation = translation
        self.reuse = reuse
        self.prefix = prefix
        self._trained = [0, 0]  # sentences and batches since the last alarm

    def check(self, model: Any) -> None:
        """Raise UsageError if the model does not read text."""
        embeddings = getattr(model, "embeddings", {})
        if self.sources not in embeddings or not isinstance(embeddings[self.sources], TextEmbedding):
            raise UsageError(f"the contrastive loss needs a model that reads text in the field {self.sources!r}")

    def check_system(self, system: ReadingModel) -> None:
        """Raise UsageError if the encoder cannot read translations as it reads sources."""
        super().check_system(system)
        source = system.inputs.get(self.sources)
        translation = system.inputs.get(self.translation)
        if self.translation == "target" and isinstance(system, System):
            translation = system.output
        if not isinstance(source, TextField) or not isinstance(translation, TextField):
            return
        if not source.reads_like(translation):
            raise UsageError(
                f"the contrastive loss encodes {self.translation!r} as it encodes {self.sources!r}: both need one "
                "tokenizer, and the same prefix and suffix"
            )

    def alarms(self, means: dict[str, float]) -> list[str]:
        """Return a warning if sources were compared with few translations in training, which teaches little.

        Args:
            means: of validation, whose batches are others.
        """
        (sentences, batches), self._trained = self._trained, [0, 0]
        mean = sentences / max(1, batches)
        if not batches or mean >= FEW or not self.weight:
            return []
        return [
            f"the contrastive loss compares a source with {mean:.1f} translations, fewer than {FEW}: give batches "
            "more rows (batch_tokens); gradient accumulation does not"
        ]

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of sentences, which is the count of each term."""
        count = batch[self.translation].lengths.new_tensor(len(batch))
        names = ("contrast", "contrast_accuracy", "contrast_candidates")
        return {f"{self.prefix}{name}": count for name in names}

    def evaluate(self, model: Any, batch: Batch, encode: Encode) -> dict[str, Term]:
        """Encode sources and translations, and compare each source with all translations."""
        if self.training:
            self._trained = [self._trained[0] + len(batch), self._trained[1] + 1]
        sources = encode(self.sources) if self.reuse else model.encode(batch, self.sources)
        with naming_longest(batch, self.translation):
            embedded = model.embeddings[self.sources](batch[self.translation])
        translations = model.encode_embedded(embedded)
        sums = contrastive(sentence_vectors(sources), sentence_vectors(translations), temperature=self.temperature)
        return {
            f"{self.prefix}contrast": Term(sums.loss, sums.count, self.weight),
            f"{self.prefix}contrast_accuracy": Term(sums.correct, sums.count, 0.0),
            f"{self.prefix}contrast_candidates": Term(sums.count * sums.count, sums.count, 0.0),
        }


def sentence_vectors(encoding: Encoding) -> Tensor:
    """Return R, the means of the encoder's states (B, D)."""
    return encoding.memories[MEMORY].mean()
