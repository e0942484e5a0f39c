"""Self-training: the rows that the student reads."""

from collections import Counter
from pathlib import Path

import numpy as np
import soundfile
import torch

from shared.corpus.loader import Loader
from shared.corpus.manifest import Manifest
from shared.recipe.recipe import Recipe

GOLDEN = Path(__file__).parents[1] / "golden" / "model"


def test_the_student_reads_as_many_labels_as_translations(tmp_path):
    """40 rows with translations and 160 with labels: the shares are of rows, and labels lack transcripts."""
    gold = {"id": "a{}", "target_text": "eins", "source_text": "one"}
    label = {"id": "b{}", "target_text": "zwei", "source_text": None}
    fixed = {"source_language": "en", "target_language": "de", "start": 0.0, "speaker": None}
    sound = tmp_path / "sound.wav"
    fixed |= {"audio": str(sound), "duration": 1.0}
    soundfile.write(sound, np.zeros(16000), 16000)
    for path, row, number in (("m/train.arrow", gold, 40), ("results/self_training/1/label/m/more.arrow", label, 160)):
        rows = [fixed | row | {"id": row["id"].format(n)} for n in range(number)]
        Manifest.write(tmp_path / path, rows)
    own = {"source_language": "en", "target_language": "de", "data_folder": "data", "batch_seconds": 10.0}
    own |= {"manifest_folder": str(tmp_path / "m"), "results_folder": str(tmp_path / "results"), "speeds": [1.0]}
    recipe = Recipe.load("own/self_training", own | {"tokenizer.model": str(GOLDEN / "tokenizer.model")})
    with torch.device("meta"):
        [stream] = recipe.build("fit").streams
    counts = Counter(id[0] for batch in Loader(streams=[stream], seed=1).epoch(0) for id in batch.ids)
    assert counts["a"] == counts["b"] > 0
