"""A tiny world for the loop: numbers to be spelled backwards, a character tokenizer, a small Translator."""

import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.padded import Padded
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from dragoman.shared.training.checkpoints import Checkpoints
from dragoman.shared.training.fit import Fit
from dragoman.shared.training.optimizer import Adam
from dragoman.shared.training.schedules import Constant
from tests import small


def small_model(tokenizer, dropout=0.0):
    return small.translator(tokenizer, sizes={"dropout": dropout})


class World:
    def __init__(self, folder):
        rows = []
        for number in range(48):
            word = f"{number * 7919 % 1000:03d}{number % 10}"
            row = {"id": f"r{number}", "source_text": word, "target_text": word[::-1]}
            rows.append(row | {"source_language": "en", "target_language": "de"})
        self.manifest = Manifest.write(folder / "train.arrow", rows).path
        model = train_sentencepiece((row["source_text"] for row in rows), folder / "t.model", kind="char", size=300)
        self.tokenizer = SentencePieceTokenizer(model=str(model), tags=["de", "en"])

    def system(self, dropout=0.0, seed=0):
        torch.manual_seed(seed)
        model = small_model(self.tokenizer, dropout)
        return small.system(self.tokenizer, model)

    def stream(self, rows=8, name="text"):
        fields = small.texts(self.tokenizer)
        return Stream(name=name, manifests=[str(self.manifest)], fields=fields, budget=Budget(rows=rows))

    def random_batch(self, rng):
        """Return a batch whose number of rows and whose lengths are drawn from 2 to 39."""
        rows, source, target = rng.integers(2, 40, 3).tolist()
        lengths = rng.integers(1, [[source], [target]], (2, rows), endpoint=True)
        lengths[:, 0] = source, target
        fields = {}
        for name, own in zip(("source", "target"), lengths, strict=True):
            values = torch.from_numpy(rng.integers(4, self.tokenizer.size, (rows, own.max() + 2)))
            real = torch.from_numpy(own) + 2  # a tag before the text and an end behind it
            values[torch.arange(values.shape[1]) >= real[:, None]] = self.tokenizer.pad
            fields[name] = Padded(values, real)
        return Batch(fields, {"source": ["en"] * rows, "target": ["de"] * rows}, [str(n) for n in range(rows)])

    def fit(self, *, dropout=0.0, objective=None, rows=8, **options):
        objective = objective or EncoderDecoderObjective(
            system=self.system(dropout), parts=[CrossEntropy(label_smoothing=0.1)]
        )
        settings = {
            "optimizer": Adam(),
            "schedule": Constant(peak=0.005),
            "updates": 12,
            "checkpoints": Checkpoints(keep="last 9", every=4),
        }
        return Fit(**({"objective": objective, "streams": [self.stream(rows)]} | settings | options))


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def workspace(tmp_path):
    def make(name="run", **options):
        torch.manual_seed(0)
        return Workspace(output=tmp_path / name, device="cpu", phase="fit", noprogressbar=True, workers=0, **options)

    return make
