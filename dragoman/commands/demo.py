"""``dragoman demo``: the whole way once, from nothing to a scored speech translator, on a laptop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dragoman.commands.options import command_line
from dragoman.runs.running import run_recipe
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.evaluation.results import read
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.systems.system import System


def run_demo(folder: Path) -> None:
    """Run the recipe almanac/st in a folder, and show what came out of it."""
    overrides = {
        "data_folder": str(folder / "almanac"),
        "manifest_folder": str(folder / "manifests"),
        "output_folder": str(folder / "st"),
    }
    recipe = Recipe.load("almanac/st", overrides)
    workspace = run_recipe(recipe, command=command_line())
    model = workspace.output / "average" / "model"
    print("\nScores (the synthetic, closed world of Almanac; tst-HE has voices and phrasings never trained on):")
    for row in read(workspace.output / "results.jsonl"):
        print(f"  {row['split']:18} {row['metric']:5} {row['value']:6.2f}   {row['signature']}")
    print(f"\nCurve: {workspace.output / 'fit' / 'training.png'}")
    test = Manifest.open(folder / "manifests" / "en-de" / "tst-COMMON.arrow")[0]
    sample = write_segment(test, folder / "sample.wav")
    system = System.load(model, workspace.device)
    print(f"\nA sound file the model has not heard, {sample}:")
    print(f"  said        {test['source_text']}")
    print(f"  reference   {test['target_text']}")
    print(f"  translated  {system.translate(sample)}")
    print(f"\nYour own:  dragoman translate {model} FILE.wav\n")


def write_segment(row: dict[str, Any], path: Path) -> Path:
    """Write the segment of a talk that a manifest row points at to a sound file of its own."""
    import soundfile

    from dragoman.shared.sound.audio import SAMPLE_RATE, read_audio

    audio = read_audio(row["audio"], start=row["start"], duration=row["duration"])
    soundfile.write(path, audio, SAMPLE_RATE)
    return path
