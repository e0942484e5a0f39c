"""A tiny world for the loop: numbers to be spelled backwards, a character tokenizer, a small Translator."""

import pytest
import torch

from shared.batch import Batch
from shared.corpus.fields import TextField
from shared.corpus.manifest import Manifest
from shared.corpus.stream import Budget, Stream
from shared.machine.workspace import Workspace
from shared.nn.embeddings import TextEmbedding
from shared.nn.heads import TiedProjection
from shared.nn.layer import Layer
from shared.nn.positions import SinusoidalPositions
from shared.nn.transformer import Decoder, Encoder
from shared.nn.translator import Translator
from shared.objectives import CrossEntropy, EncoderDecoderObjective
from shared.padded import Padded
from shared.systems.system import System
from shared.text.piece_model import train_sentencepiece
from shared.text.tokenizer import SentencePieceTokenizer
from shared.training.checkpoints import Checkpoints
from shared.training.fit import Fit
from shared.training.optimizer import Adam
from shared.training.schedules import Constant


def small_model(tokenizer, dropout=0.0):
    def embedding():
        return TextEmbedding(
            vocabulary=tokenizer.size,
            width=16,
            padding=tokenizer.pad,
            positions=SinusoidalPositions(width=16),
            dropout=dropout,
        )

    def layer(**options):
        return Layer(width=16, heads=2, feedforward=32, dropout=dropout, **options)

    target = embedding()
    return Translator(
        embeddings={"source": embedding()},
        encoder=Encoder(layer=layer(), layers=1),
        target_embedding=target,
        decoder=Decoder(layer=layer(memories=["source"]), layers=1),
        projection=TiedProjection(embedding=target),
    )


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
        return System(
            model=model,
            inputs={"source": TextField(column="source_text", tokenizer=self.tokenizer)},
            output=TextField(column="target_text", tokenizer=self.tokenizer),
            source_languages=["en"],
            target_languages=["de"],
        )

    def stream(self, rows=8, name="text"):
        fields = {
            "source": TextField(column="source_text", tokenizer=self.tokenizer),
            "target": TextField(column="target_text", tokenizer=self.tokenizer),
        }
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
            system=self.system(dropout), parts=[CrossEntropy(smoothing=0.1)]
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
