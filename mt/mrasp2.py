"""mRASP2: sentences that mean the same get similar vectors, whatever their language, while translation is learned.

Pan et al. 2021, "Contrastive Learning for Many-to-many Multilingual Neural Machine Translation", section 2; also called
mCOLT. To the cross entropy of translation comes, over a batch of sentences x_i with translations y_i,

    L_ctr = - sum_i log ( exp(cos(R(x_i), R(y_i)) / tau) / sum_j exp(cos(R(x_i), R(y_j)) / tau) ),

where R is the mean of the encoder's states, those of the language's symbol and of </s> included. Sources are changed by
aligned substitution (mt/mrasp.py) with a lexicon of all languages, and so is monolingual text, whose "translation" is
the text itself.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from shared.batch import Batch
from shared.errors import UsageError
from shared.generator import Encoding
from shared.nn.translator import MEMORY
from shared.objectives.contrastive import contrastive
from shared.objectives.objective import Term
from shared.objectives.parts import Encode, Part


class Contrast(Part):
    """The contrastive loss between sources and translations, per sentence.

    Terms: "contrast" (nats), and reported only: "contrast_accuracy" (share of sources to which no other translation is
    more similar than their own). The other translations are those of the same batch on the same process: the number of
    rows in a batch is a setting of the method, and gradient accumulation does not raise it. The authors' code adds
    ``weight * L_ctr * tokens / sentences`` to the sum over tokens, and divides by tokens: this is the same.

    Args:
        temperature: tau; 0.1.
        weight: factor of the term in the loss; 1.
        source: batch field of the sources; None: the one that the objective encodes.
        translation: batch field of the translations, which the encoder reads as it reads sources: with the same symbols
            around the text. The decoder's field is framed so, too, unless a recipe changes it.
        reuse: take the states that the cross entropy reads for R(x). By default the encoder runs once more on sources,
            as in the authors' code, so that dropout differs.
        prefix: put before the names of the terms.

    Raises:
        UsageError: for a temperature that is not positive.

    """

    def __init__(
        self,
        *,
        temperature: float = 0.1,
        weight: float = 1.0,
        source: str | None = None,
        translation: str = "target",
        reuse: bool = False,
        prefix: str = "",
    ) -> None:
        super().__init__(source=source)
        if not 0 < temperature < math.inf:
            raise UsageError(f"temperature must be positive, not {temperature}")
        self.temperature = temperature
        self.weight = weight
        self.translation = translation
        self.reuse = reuse
        self.prefix = prefix

    def check(self, model: Any) -> None:
        """Raise UsageError if the model does not read text."""
        if (self.source or "source") not in getattr(model, "embeddings", {}):
            raise UsageError(f"the contrastive loss needs a model that reads the field {self.source or 'source'!r}")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of sentences, which is the count of each term."""
        count = batch[self.translation].lengths.new_tensor(len(batch))
        return {f"{self.prefix}{name}": count for name in ("contrast", "contrast_accuracy")}

    def evaluate(self, model: Any, batch: Batch, encode: Encode) -> dict[str, Term]:
        """Encode sources and translations, and compare each source with all translations."""
        sources = encode(self.source) if self.reuse else model.encode(batch, self.source)
        embedding = model.embeddings[self.source or "source"]
        translations = model.encode_embedded(embedding(batch[self.translation]))
        sums = contrastive(sentence_vectors(sources), sentence_vectors(translations), temperature=self.temperature)
        return {
            f"{self.prefix}contrast": Term(sums.loss, sums.count, self.weight),
            f"{self.prefix}contrast_accuracy": Term(sums.correct, sums.count, 0.0),
        }


def sentence_vectors(encoding: Encoding) -> Tensor:
    """Return R, the means of the encoder's states (B, D)."""
    return encoding.memories[MEMORY].mean()
