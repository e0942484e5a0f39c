"""wav2vec 2.0: an encoder of waveforms learns to tell masked frames from others.

Baevski et al. 2020, arXiv 2006.11477. Convolutions turn a waveform into frames z. Spans of them are masked, and the
encoder's state c_t at a masked step t has to tell the quantised frame q_t from K distractors q', which are quantised
frames of other masked steps of the same utterance (section 3.2, equations 3 and 4; the penalty, section 4.2)::

    L_m = -log exp(cos(c_t, q_t) / k) / sum over q' in {q_t, K distractors} of exp(cos(c_t, q') / k)
    L_d = (GE - sum_g exp H(p_g)) / GE
    L   = L_m + 0.1 L_d + 10 mean z^2

p_g is the mean distribution over the E entries of group g. It and the penalty are statistics of a batch: with several
batches or processes an update takes their mean, weighted by masked frames, as fairseq does. A distractor with the codes
of the true frame is left out. Speech recognition and translation from few labels begin with what this has learned.

Differs from fairseq: each row's masks are drawn separately, where fairseq equalises their number within a batch; rows
are padded, not cut to the shortest; layers begin as those of translators here, not normal with a deviation of 0.02.

Legend: B batch, N samples, S frames, C channels, M masked frames of a row, K distractors, P compared width.
"""

from __future__ import annotations

from typing import ClassVar, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.shared.batch import Batch
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.nn.quantiser import ContrastiveHead, Quantised, perplexity
from dragoman.shared.nn.spans import others
from dragoman.shared.nn.translator import MEMORY, EncoderModel
from dragoman.shared.nn.waveform import WaveformEmbedding
from dragoman.shared.objectives.objective import Loss, Objective, Term
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeFloat, PositiveFloat, PositiveInt
from dragoman.shared.systems.reading_model import ReadingModel

#: The batch's fields of drawn masks (B, S) bool and distractors (B, M, K) int64, which number the row's masked frames.
MASKED, DISTRACTORS = "masked", "distractors"
#: Below this share of all entries, the code perplexity is that of a codebook that has collapsed.
COLLAPSED = 0.05
#: A model with less than this many times the accuracy of chance has not begun to learn. It is given time for that until
#: the temperature of codes has fallen to this share of the first.
BEGUN, SETTLED = 2.0, 0.75


class ContrastivePretraining(Objective):
    """The loss of wav2vec 2.0.

    Its terms are all per masked frame: "contrastive", "diversity", "penalty"; and, for the record alone,
    "code_perplexity" (of GE; G when the codebook has collapsed) and "accuracy", the share of masked frames that are
    scored above all distractors.

    Args:
        system: with an EncoderModel that has a WaveformEmbedding "speech" with masking and a ContrastiveHead
            "contrastive".
        distractors: K; drawn anew each time, with repetition, so a row may have fewer masked frames.
        temperature: k, by which similarities are divided.
        diversity: weight of L_d.
        penalty: weight of the mean square of what leaves the convolutions; the large models have 0.
        code_temperature: of the choice of codes: at the first update, the least, and the factor of each update.

    Raises:
        UsageError: if the temperatures of codes contradict each other, or the model lacks a part.
    """

    prepares_alone: ClassVar[bool] = True

    compares_rows = True  # the diversity of codes is that of a batch

    def __init__(
        self,
        *,
        system: ReadingModel,
        distractors: PositiveInt = 100,
        temperature: PositiveFloat = 0.1,
        diversity: NonNegativeFloat = 0.1,
        penalty: NonNegativeFloat = 10.0,
        code_temperature: list[float] | None = None,
    ) -> None:
        super().__init__()
        annealing = [2.0, 0.5, 0.999995] if code_temperature is None else list(code_temperature)
        if len(annealing) != 3 or not annealing[0] >= annealing[1] > 0 or not 0 < annealing[2] <= 1:
            raise UsageError(f"code_temperature must be [first, least, factor], not {annealing}")
        self._check(system)
        self.system = system
        self.distractors = distractors
        self.temperature = temperature
        self.diversity = diversity
        self.penalty = penalty
        self.annealing = annealing
        self.at(1)

    @staticmethod
    def _check(system: ReadingModel) -> None:
        model = system.model
        embedding = dict(model.embeddings.items()).get("speech") if isinstance(model, EncoderModel) else None
        if not isinstance(model, EncoderModel) or not isinstance(embedding, WaveformEmbedding):
            raise UsageError(
                f"a {type(model).__name__} is not an encoder of waveforms; only such a model can be pre-trained so"
            )
        if embedding.masking is None or embedding.masking.probability == 0:
            raise UsageError("the embedding masks no frames: its masking needs a probability above 0")
        if "contrastive" not in model.heads:
            raise UsageError(
                "the model has no head 'contrastive' (quantiser and projections), only "
                f"{sorted(model.heads) or 'none'}: begin with a checkpoint of pre-training that still has its quantiser"
            )

    @property
    def model(self) -> EncoderModel:
        """The model that is trained."""
        return cast(EncoderModel, self.system.model)

    @property
    def embedding(self) -> WaveformEmbedding:
        """The model's embedding of waveforms."""
        return cast(WaveformEmbedding, self.model.embeddings["speech"])

    @property
    def head(self) -> ContrastiveHead:
        """The model's quantiser and projections."""
        return cast(ContrastiveHead, self.model.heads["contrastive"])

    def at(self, update: int) -> None:
        """Set the temperature of the choice of codes for update 1, 2, ..."""
        first, least, factor = self.annealing
        self.code_temperature = max(least, first * factor ** (update - 1))

    def prepare(self, batch: Batch) -> Batch:
        """Draw masks and distractors.

        Raises:
            DataError: naming a row that is too short to have two masked frames.
        """
        speech = batch["speech"]
        lengths = self.embedding.lengths(speech.lengths)
        length = int(self.embedding.lengths(torch.tensor([speech.values.shape[1]])))
        masking = self.embedding.masking
        assert masking is not None
        masked = masking.draw_frames(lengths, length)
        steps = masked.sum(1)
        if int(steps.min()) < 2:
            row = int(steps.argmin())
            raise DataError(
                f"row {batch.ids[row] if batch.ids else row!r}: {int(steps[row])} of its {int(lengths[row])} frames "
                "masked, and a frame is told from others only: leave out short rows (minimum_seconds), or mask more"
            )
        distractors = Padded(others(steps, self.distractors), steps)
        return batch.with_fields(**{MASKED: Padded(masked, lengths), DISTRACTORS: distractors})

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of masked frames, for each term."""
        count = batch[DISTRACTORS].lengths.sum()
        return dict.fromkeys(("contrastive", "diversity", "penalty", "code_perplexity", "accuracy"), count)

    def forward(self, batch: Batch) -> Loss:
        """Return the loss of a prepared batch."""
        masked, distractors = batch[MASKED].values, batch[DISTRACTORS]
        convolved = self.embedding.convolved(batch["speech"])
        frames = convolved.map(self.embedding.frame_norm)
        targets: Quantised = self.head.quantiser(frames.keep(masked), self.code_temperature)
        encoding = self.model.encode_embedded(self.embedding.embed(frames, masked))
        states = encoding.memories[MEMORY].keep(masked)
        logits = self.logits(self.head.states(states.values), targets, distractors)
        count = distractors.lengths.sum()
        codes = targets.probabilities.numel()
        diversity = (codes - perplexity(targets.probabilities)) / codes
        return Loss(
            {
                "contrastive": Term(-logits.log_softmax(-1)[:, 0].sum(), count),
                "diversity": Term(diversity * count, count, self.diversity),
                "penalty": Term(_mean_square(convolved) * count, count, self.penalty),
                "code_perplexity": Term(perplexity(targets.usage) * count, count, 0.0),
                "accuracy": Term(_told_apart(logits), count, 0.0),
            }
        )

    def logits(self, predicted: Tensor, targets: Quantised, distractors: Padded) -> Tensor:
        """Return the logits (masked frames of all rows, 1 + K) of the true frame and its distractors.

        All similarities of a row are computed once, (B, M, M), from which those of the distractors are taken.

        Args:
            predicted: (B, M, P) projected states.
            targets: the M quantised frames of each row.
            distractors: (B, M, K) int64.
        """
        compared = self.head.targets(targets.vectors)
        with torch.autocast(predicted.device.type, enabled=False):
            one = F.normalize(predicted.float(), dim=-1)
            other = F.normalize(compared.float(), dim=-1)
            similarity = one @ other.transpose(1, 2) / self.temperature  # (B, M, M)
        same = (targets.entries[:, :, None] == targets.entries[:, None]).all(-1)
        of_true = similarity.diagonal(dim1=1, dim2=2)[..., None]
        of_distractors = similarity.masked_fill(same, -torch.inf).gather(2, distractors.values)
        return torch.cat([of_true, of_distractors], dim=2)[distractors.mask]

    def alarms(self, means: dict[str, float]) -> list[str]:
        """Return a warning if nothing is learned: the codebook has collapsed, or frames are told apart as by chance.

        Args:
            means: of the terms, since the last report.
        """
        quantiser = self.head.quantiser
        codes, used = quantiser.groups * quantiser.entries, means.get("code_perplexity", torch.inf)
        # A group with one entry in use has perplexity 1, which is much of a small codebook.
        if used - quantiser.groups < COLLAPSED * (codes - quantiser.groups):
            return [
                f"the codebook has collapsed: its perplexity is {used:.1f} of {codes}; a larger weight of the "
                "diversity loss, a higher code_temperature or a lower learning rate may prevent it"
            ]
        accuracy, chance = means.get("accuracy", 1.0), 1 / (1 + self.distractors)
        settled = self.code_temperature <= max(self.annealing[1], SETTLED * self.annealing[0])
        if settled and accuracy < BEGUN * chance:
            return [
                f"{accuracy:.1%} of the masked frames are told from their distractors, {chance:.1%} would be by "
                "chance; a lower learning rate may help"
            ]
        return []


def _mean_square(convolved: Padded) -> Tensor:
    """Return the mean over all real frames and channels of the square of x (B, S, C)."""
    squares = convolved.values.float().square().mean(-1)
    return squares.masked_fill(~convolved.mask, 0).sum() / convolved.lengths.sum()


def _told_apart(logits: Tensor) -> Tensor:
    """Count the rows of logits (n, 1 + K) whose first is above all others; with no other frame there is no contrast."""
    best = logits[:, 1:].max(1).values
    return ((logits[:, 0] > best) & best.isfinite()).sum()
