"""Generate: the same manifest whatever happens on the way, what is dropped and why, backwards, speech."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dragoman import BeamSearch, DataError, Manifest, Rules, System, UsageError
from dragoman.shared.batches.stream import Budget
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases import generating, sharded
from dragoman.shared.phases.generating import Generate, fingerprint_of_model
from dragoman.shared.phases.quality import Quality
from dragoman.shared.sound.audio import SAMPLE_RATE
from tests import small
from tests.small import refuses

MODEL = Path(__file__).parents[2] / "golden" / "model"
WORDS = "one two three four five six seven eight".split()
SEARCH = BeamSearch(beam=2, rules=Rules(maximum_length_extra=20))


def sentence(number):
    return f"{WORDS[number % 8]} {WORDS[number * 3 % 7]}" if number != 4 else " "


@pytest.fixture
def manifest(tmp_path):
    rows = [
        small.row(f"r{number}", sentence(number), f"old {number}")
        | {"speaker": "a" if number % 2 else None, "origin_file": number}
        for number in range(11)
    ]
    return Manifest.write(tmp_path / "en-de" / "train.arrow", rows)


@pytest.fixture
def place(tmp_path):
    def make(name="run", **options):
        return Workspace(
            output=tmp_path / name, phase="generate", device="cpu", noprogressbar=True, workers=0, **options
        )

    return make


def generate(manifest, **options):
    settings = {"model": str(MODEL), "manifests": [str(manifest.path)], "search": SEARCH}
    return Generate(**(settings | {"budget": Budget(rows=2), "shard_rows": 4} | options))


def content(workspace):
    """Every file of the phase, by name."""
    files = sorted(file for file in workspace.folder.rglob("*") if file.is_file())
    return {str(file.relative_to(workspace.folder)): file.read_bytes() for file in files}


def test_rows_keep_everything_but_their_translation(manifest, place):
    generate(manifest).run(place())
    made = Manifest.open(place().folder / "en-de" / "train.arrow")
    system = System.load(MODEL)
    old = [row for row in manifest]
    expected = system.hypotheses([row["source_text"] for row in old], search=SEARCH)
    mark = {"model": fingerprint_of_model(MODEL), "made_from": manifest.fingerprint}
    mark["search"] = "BeamSearch(beam=2, rules=Rules(maximum_length_extra=20))"
    for before, row, hypotheses in zip(old, made, expected, strict=True):
        assert row["score"] == pytest.approx(hypotheses[0].score, abs=1e-5)
        new = {"target_text": hypotheses[0].texts["translation"], "score": row["score"]}
        assert row == before | new | mark
    assert made[4]["target_text"] == "" and made[0]["target_text"].split()[-1] == "eins"
    note = json.loads((place().folder / "generated.json").read_text())
    assert note["model"] == mark["model"] and note["search"]["arguments"]["beam"] == 2
    told = {"from": str(manifest.path), "made_from": manifest.fingerprint}
    assert note["manifests"] == [told | {"to": "en-de/train.arrow", "rows": 11, "dropped": {}}]
    assert sorted(content(place())) == ["en-de/train.arrow", "generated.json"]  # no shard is left


@pytest.mark.parametrize("left", range(7))
def test_what_was_cut_anywhere_ends_as_if_it_had_not_been(manifest, place, monkeypatch, left):
    """Seven writes: the note of the start, three shards, the merged manifest, the note, the deletion of the shards."""
    generate(manifest).run(place("whole"))
    calls = iter(range(left))

    def killed(real):
        def call(*arguments, **keywords):
            if next(calls, None) is None:
                raise ZeroDivisionError
            return real(*arguments, **keywords)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "write", killed(Manifest.write))
        patch.setattr(sharded, "replaced_file", killed(sharded.replaced_file))
        patch.setattr(sharded, "discard_folder", killed(sharded.discard_folder))
        with pytest.raises(ZeroDivisionError):
            generate(manifest).run(place("cut"))
    translated = []
    real = generating.translate_rows

    def counted(system, rows, **options):
        translated.extend(row["id"] for row in rows)
        return real(system, rows, **options)

    monkeypatch.setattr(generating, "translate_rows", counted)
    generate(manifest).run(place("cut"))
    assert content(place("cut")) == content(place("whole"))
    shards = [[f"r{n}" for n in rows] for rows in (range(4), range(4, 8), range(8, 11))]
    done = max(0, min(left - 1, 3))  # the first call writes what was begun
    assert translated == [name for shard in shards[done:] for name in shard]


def test_the_size_of_shards_and_batches_changes_no_text(manifest, place):
    generate(manifest).run(place("small"))
    generate(manifest, shard_rows=100, budget=Budget(tokens=64)).run(place("large"))
    texts = [Manifest.open(place(n).folder / "en-de" / "train.arrow").column("target_text") for n in ("small", "large")]
    assert texts[0].to_pylist() == texts[1].to_pylist()


def test_dropped_rows_are_counted_and_too_many_are_an_error(manifest, place):
    generate(manifest).run(place("all"))
    scores = {row["id"]: row["score"] for row in Manifest.open(place("all").folder / "en-de" / "train.arrow")}
    limit = sorted(scores.values())[3]
    generate(manifest, quality=Quality(minimum_score=limit)).run(place())
    made = Manifest.open(place().folder / "en-de" / "train.arrow")
    assert [row["id"] for row in made] == [name for name in scores if scores[name] >= limit and name != "r4"]
    note = json.loads((place().folder / "generated.json").read_text())["manifests"][0]
    assert note["dropped"] == {"empty": 1, f"score below {limit:g}": 3} and note["rows"] == 7
    strict = generate(manifest, quality=Quality(minimum_score=limit, maximum_dropped=0.3))
    said = r"train\.arrow: 4 of 11 outputs would be dropped \(1 empty, 3 score below.* 0\.3"
    refuses(DataError, said, strict.run, place("strict"))
    assert not (place("strict").folder / "en-de").exists()


def test_backwards_it_writes_sources_for_targets(tmp_path, place):
    """Rows of German that need English: for the model, which reads English, the sides are exchanged."""
    rows = [{"id": f"m{n}", "target_text": sentence(n), "target_language": "en"} for n in range(3)]
    manifest = Manifest.write(tmp_path / "mono" / "train.arrow", rows)
    said = r"train\.arrow: row 'm0': the model writes de, not None: name one"
    refuses(DataError, said, generate(manifest, backwards=True).run, place("unnamed"))
    generate(manifest, backwards=True, language="de").run(place())
    for row in Manifest.open(place().folder / "mono" / "train.arrow"):
        assert row["target_text"] == sentence(int(row["id"][1:])) and row["target_language"] == "en"
        assert row["source_language"] == "de" and row["source_text"]
    assert row["source_text"] == System.load(MODEL).translate(sentence(2), search=SEARCH)


def test_a_column_of_its_own_leaves_the_texts(manifest, place):
    generate(manifest, column="student_text").run(place())
    made = Manifest.open(place().folder / "en-de" / "train.arrow")
    assert made[2]["target_text"] == "old 2" and made[2]["student_text"].split()[-1] == "drei"
    refuses(UsageError, "_text, not 'score'", generate, manifest, column="score")


def test_speech(tmp_path, place, speech_model):
    rng = np.random.default_rng(0)
    rows = []
    for number in range(5):
        file = tmp_path / f"{number}.wav"
        soundfile.write(file, 0.1 * rng.standard_normal(SAMPLE_RATE // 2 + 1000 * number), SAMPLE_RATE)
        rows.append({"id": str(number), "audio": str(file), "start": 0.0, "duration": 0.5 + number / 16})
        rows[-1] |= {"source_language": "en", "target_language": "de"}
    manifest = Manifest.write(tmp_path / "en-de" / "train.arrow", rows)
    search = BeamSearch(beam=2, rules=Rules(maximum_length_extra=4))
    phase = generate(manifest, model=str(speech_model), search=search, budget=Budget(seconds=2), shard_rows=2)
    phase.run(place())
    made = [row["target_text"] for row in Manifest.open(place().folder / "en-de" / "train.arrow")]
    expected = System.load(speech_model).hypotheses([row["audio"] for row in rows], search=search, keep_silence=True)
    assert made == [one[0].texts["translation"] for one in expected]


def test_another_model_or_manifest_in_the_middle_is_refused(manifest, place, monkeypatch, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(MODEL, copy)
    phase = generate(manifest, model=str(copy))
    with monkeypatch.context() as patch:
        patch.setattr(Generate, "_finish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            phase.run(place())
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    refuses(UsageError, "begun with another model .*--restart generate", phase.run, place())
    shutil.copy(MODEL / "model.safetensors", copy)
    Manifest.write(manifest.path, list(manifest)[:10])
    refuses(UsageError, r"begun with another manifest en-de/train\.arrow .*--restart generate", phase.run, place())


def test_wrong_input_is_named(manifest, place, tmp_path):
    refuses(DataError, "nowhere: there is no such model folder", generate(manifest, model="nowhere").run, place())
    other = tmp_path / "more" / "en-de" / "train.arrow"
    Manifest.write(other, list(manifest))
    both = generate(manifest, manifests=[str(manifest.path), str(other)])
    refuses(UsageError, "two of .* have the same names", both.run, place())


def test_a_models_fingerprint_is_of_its_files_alone(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    before = fingerprint_of_model(tmp_path)
    (tmp_path / ".lock").write_text("who")
    (tmp_path / "onnx").mkdir()
    assert fingerprint_of_model(tmp_path) == before
    (tmp_path / "weights").write_text("1")
    assert fingerprint_of_model(tmp_path) != before
