"""A test set: what is scored, against what, and what is refused before anything is translated."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
import soundfile

from dragoman import BeamSearch, DataError, Hypothesis, Manifest, Rules, System, UsageError
from dragoman.commands.tested import tests_of as outputs_of
from dragoman.shared import described
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation import scoring as evaluate
from dragoman.shared.evaluation.results import read
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.evaluating import Evaluate
from dragoman.shared.systems.rows import translate_rows
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small
from tests.shared.systems.test_system import WORDS, make
from tests.small import refuses

GERMAN = ["Der Zug nach Bern fährt um sieben Uhr dreißig ab.", "Wie lange dauert die Fahrt bis zum Bahnhof?", "Ja."]
ENGLISH = ["The train to Bern leaves at half past seven.", "How long does it take to get to the station?", "Yes."]


@pytest.fixture
def run(tmp_path):
    """Evaluate given outputs, of a system that knows some languages, on a manifest with given extra columns."""

    def evaluated(hypotheses, *, targets=("de", "fr"), metrics=("bleu",), columns=None, in_play=()):
        rows = [
            {"id": f"r{n}", "source_text": ENGLISH[n], "source_language": "en", "target_text": GERMAN[n]}
            | {"target_language": "de"}
            | {name: texts[n] for name, texts in (columns or {}).items()}
            for n in range(3)
        ]
        manifest = Manifest.write(tmp_path / "m.arrow", rows)
        texts = {"translation": SimpleNamespace(column="target_text", side="target", in_language=True)}
        known = {"source_languages": ["en"], "target_languages": list(targets)}
        system = SimpleNamespace(output_name="translation", texts=texts, **known)
        tests = evaluate.TestSet(system, manifest, list(metrics))
        share = {n: Hypothesis([], 0.0, {"translation": text}) for n, text in enumerate(hypotheses)}
        return tests.evaluate([share], in_play)

    return evaluated


def test_all_references_count(run):
    second = ["Der Zug nach Bern geht um halb acht.", None, "Jawohl."]
    third = ["Um halb acht fährt der Zug nach Bern.", "Wie weit ist es bis zum Bahnhof?", None]
    hypotheses = ["Der Zug nach Bern geht um halb acht.", "Wie weit ist es bis zum Bahnhof?", "Jawohl."]
    found = run(hypotheses, columns={"target_text_10": third, "target_text_2": second, "target_text_x": second})
    assert found.outputs.references == [GERMAN, second, third]
    expected = sacrebleu.corpus_bleu(hypotheses, [GERMAN, second, third]).score
    assert found.scores[0].value == pytest.approx(expected) == pytest.approx(100)
    with pytest.raises(DataError, match="'r0': target_text, target_text_1 should be texts"):
        run([], columns={"target_text_1": [1, 2, 3]})


def test_outputs_in_another_language_are_told(run):
    found = run([GERMAN[0], ENGLISH[1], GERMAN[2]])
    assert (found.off_target.value, found.off_target.lines) == (50, 2) and found.language == "de"
    assert "among:de+en+fr" in found.off_target.signature and found.all_scores[-1] is found.off_target
    alarms = {alarm.kind: str(alarm) for alarm in found.alarms}
    assert "50.0% of the 2 outputs (of 3)" in alarms["in another language"]
    bilingual = run([GERMAN[0], ENGLISH[1], GERMAN[2]], targets=["de"])
    assert bilingual.off_target is None and "in another language" in {alarm.kind for alarm in bilingual.alarms}
    asked = run([GERMAN[0], ENGLISH[1], GERMAN[2]], targets=["de"], in_play=["ru"])
    assert (asked.off_target.value, "among:de+en+ru" in asked.off_target.signature) == (50, True)
    right = run(GERMAN)
    assert right.off_target.value == 0 and right.alarms == []


@pytest.mark.parametrize(
    ("metrics", "columns", "message"),
    [
        (["wer"], {"target_text_1": GERMAN}, "one set of references, not 2"),
        (["blue"], {}, "unknown metric 'blue'"),
        (["bleu", "comet"], {}, "comet is a trained model, .*: use `dragoman score --comet FOLDER`"),
    ],
)
def test_what_cannot_be_scored_is_not_translated(run, metrics, columns, message):
    refuses(DataError, message, run, [], metrics=metrics, columns=columns)


@pytest.mark.parametrize(
    ("codes", "found"),
    [(["de", "fr", "de"], r"references in \['de', 'fr'\]"), (["de", None], "references in"), ([], "no rows")],
)
def test_references_are_in_one_language(tmp_path, codes, found):
    rows = [{"id": str(n), "source_text": "a", "target_text": "b", "target_language": c} for n, c in enumerate(codes)]
    manifest = Manifest.write(tmp_path / "m.arrow", rows)
    with pytest.raises(DataError, match=rf"m\.arrow: holds {found}.*; only references in one language can be scored"):
        evaluate._references(SimpleNamespace(column="target_text", side="target", in_language=True), manifest)


SOURCES = ["", "one two", " \t", "three", "\u3000", "eight seven"]
SETTINGS = {"search": BeamSearch(), "budget": Budget(rows=2)}


@pytest.fixture
def sources(tmp_path):
    rows = [small.row(f"r{n}", text, "eins") for n, text in enumerate(SOURCES)]
    return Manifest.write(tmp_path / "m.arrow", rows)


def quiet(**options):
    return Workspace(output=Path(), device="cpu", workers=0, noprogressbar=True, **options)


def test_evaluate_and_translate_agree_on_sources_without_content(sources):
    system = System.load(small.GOLDEN)
    found = evaluate.evaluate_system(system, sources, metrics=["bleu"], workspace=quiet(), **SETTINGS)
    translated = [one[0].texts["translation"] for one in system.hypotheses(SOURCES)]
    assert found.outputs.hypotheses == translated
    assert translated[::2] == ["", "", ""] and translated[1] == "zwei eins"


@pytest.mark.parametrize(("metrics", "said"), [(["bleu", "wer"], True), (["wer", "cer"], False)])
def test_references_that_the_model_cannot_write_are_told(sources, metrics, said, tmp_path, caplog):
    """No output can be perfect on those; errors of recognition do not count what is lost."""
    rows = [sources[number] | {"target_text": text} for number, text in enumerate(["eins…", *["zwei"] * 5])]
    manifest = Manifest.write(tmp_path / "odd.arrow", rows)
    evaluate.evaluate_system(System.load(small.GOLDEN), manifest, metrics=metrics, workspace=quiet(), **SETTINGS)
    found = [message for message in caplog.messages if "written back" in message]
    assert len(found) == said
    assert not said or "odd.arrow: references: 1 of 6 texts, 16.67%, cannot" in found[0] and "'eins…'" in found[0]


def test_sources_without_content_are_shared_by_the_processes(sources):
    system = System.load(small.GOLDEN)
    for rows in (sources, list(sources)):
        shares = [dict(translate_rows(system, rows, rank=rank, world=2, **SETTINGS)) for rank in (0, 1)]
        assert sorted([*shares[0], *shares[1]]) == [0, 1, 2, 3, 4, 5]
        blank = {number: one[0] for share in shares for number, one in share.items() if number % 2 == 0}
        assert {hypothesis.texts["translation"] for hypothesis in blank.values()} == {""}
        assert (shares[0] | shares[1])[5][0].texts["translation"] == "sieben acht"


def test_a_manifest_of_nothing_but_blanks_is_not_shown_to_the_model(sources, monkeypatch):
    system = System.load(small.GOLDEN)
    monkeypatch.setattr(System, "translate_batch", lambda *_: pytest.fail("the model was shown a blank"))
    found = dict(translate_rows(system, sources.select([0, 2, 4]), **SETTINGS))
    assert [one[0].texts["translation"] for one in found.values()] == ["", "", ""]


def test_recordings_without_speech_are_counted_and_translated_all_the_same(tmp_path, monkeypatch, caplog):
    system = make(small.tokenizer(WORDS * 9, size=263), "speech")
    rows = []
    for number, level in enumerate([0.5, 0.0, 0.3, 0.0, 0.0]):
        file = tmp_path / f"{number}.wav"
        soundfile.write(file, np.full(8000, level), 16000)
        rows.append({"id": f"r{number}", "audio": str(file), "start": 0.0, "duration": 0.5, "target_text": "abc"})
        rows[-1] |= {"source_language": "en", "target_language": "de"}
    manifest = Manifest.write(tmp_path / "m.arrow", rows)
    loud = SimpleNamespace(name="a threshold", has_speech=lambda waveform: np.abs(waveform).max() > 0.1)
    monkeypatch.setattr(evaluate, "speech_detector", lambda: loud)
    shown = []
    monkeypatch.setattr(system, "translate_batch", lambda batch, search: shown.extend(batch.ids) or outputs(batch))

    def outputs(batch):
        return [[Hypothesis([], 0.0, {"translation": "cba"})] for _ in batch.ids]

    found = evaluate.evaluate_system(
        system,
        manifest,
        search=BeamSearch(beam=1),
        budget=Budget(seconds=60),
        metrics=["bleu"],
        workspace=Workspace(output=tmp_path, device="cpu"),
    )
    assert found.without_speech == 3 and sorted(shown) == [row["id"] for row in rows]
    (message,) = [message for message in caplog.messages if "no speech" in message]
    assert "m.arrow: 3 of 5 recordings hold no speech (detector: a threshold)" in message


class Both(System):
    """Writes its input backwards as the translation, and all but its first letter as the transcript."""

    calls = 0

    @property
    def texts(self):
        return {"transcript": self.inputs["source"], "translation": self.output}

    def translate_batch(self, batch, search, *, forced=None):
        type(self).calls += 1
        texts = [self.output.tokenizer.decode(row.tolist()) for row in batch["source"].rows()]
        return [[Hypothesis([], 0.0, {"transcript": text[1:], "translation": text[::-1]})] for text in texts]


def test_two_texts_of_one_pass_are_scored_each_against_its_own_column(tmp_path, monkeypatch):
    monkeypatch.setattr(described, "PACKAGES", (*described.PACKAGES, __name__))
    model = train_sentencepiece(WORDS * 9, tmp_path / "t.model", kind="char", size=263)
    system = make(SentencePieceTokenizer(model=str(model), tags=["de", "en"]), "source", Both)
    spoken = ["abc cab", "aabb", "ccab aabb abc"]
    written = ["bac cba", "bbaa", "cba"]
    rows = [
        {"id": f"r{n}", "source_text": spoken[n], "source_language": "en", "target_text": written[n]}
        | {"target_language": "de"}
        for n in range(3)
    ]
    Manifest.write(tmp_path / "en-de" / "test.arrow", rows)
    system.save(tmp_path / "model")
    workspace = Workspace(output=tmp_path / "run", device="cpu", phase="evaluate", workers=0)
    phase = Evaluate(
        model=str(tmp_path / "model"),
        manifests=[str(tmp_path / "en-de" / "test.arrow")],
        metrics=["bleu"],
        texts={"transcript": ["wer", "chrf"]},
        search=BeamSearch(),
        budget=Budget(rows=2),
    )
    with workspace.locked():
        phase.run(workspace)
    assert Both.calls == 2  # batches of two rows, whatever the number of texts
    heard, translated = [text[1:] for text in spoken], [text[::-1] for text in spoken]
    results = {(row["text"], row["metric"]): row for row in read(tmp_path / "run" / "results.jsonl")}
    assert list(results) == [("translation", "bleu"), ("transcript", "wer"), ("transcript", "chrf")]
    wanted = {
        ("translation", "bleu"): sacrebleu.corpus_bleu(translated, [written]).score,
        ("transcript", "wer"): 100 * 3 / 6,  # by hand: of six words, the first of each line is wrong
        ("transcript", "chrf"): sacrebleu.corpus_chrf(heard, [spoken]).score,
    }
    assert {key: row["value"] for key, row in results.items()} == {k: round(v, 2) for k, v in wanted.items()}
    tested = outputs_of(tmp_path / "run")
    assert list(tested) == ["en-de/test", "en-de/test (transcript)"]
    assert [one.outputs.hypotheses for one in tested.values()] == [translated, heard]
    with pytest.raises(UsageError, match="writes transcript and translation, not 'summary'"):
        evaluate.TestSet(system, Manifest.open(tmp_path / "en-de" / "test.arrow"), ["bleu"], "summary")


@pytest.mark.parametrize("debug", [False, True])
def test_outputs_after_two_updates_set_off_no_alarm(debug, tmp_path, caplog):
    row = {"source_text": "one two", "source_language": "en", "target_text": "zwei eins", "target_language": "de"}
    Manifest.write(tmp_path / "en-de" / "test.arrow", [row | {"id": "a"}, row | {"id": "b"}])
    workspace = Workspace(output=tmp_path / "run", device="cpu", phase="evaluate", workers=0, debug=debug)
    phase = Evaluate(
        model=str(small.GOLDEN),
        manifests=[str(tmp_path / "en-de" / "test.arrow")],
        metrics=["bleu"],
        search=BeamSearch(rules=Rules(maximum_length_extra=1)),
        budget=Budget(rows=2),
    )
    with workspace.locked():
        phase.run(workspace)
    assert debug is not any("100.0% of the outputs are cut off" in message for message in caplog.messages)


@pytest.mark.parametrize(("silent", "main", "warned"), [(0, True, 0), (2, False, 0), (2, True, 1), (0, False, 0)])
def test_recordings_without_speech_are_warned_of_once(monkeypatch, caplog, silent, main, warned):
    rows = [{"number": number} for number in range(7)]
    heard = []
    monkeypatch.setattr(evaluate, "speech_detector", lambda: SimpleNamespace(name="levels"))
    monkeypatch.setattr(evaluate, "rows_without_speech", lambda rows, detector: heard.extend(rows) or [0] * silent)
    monkeypatch.setattr(evaluate, "gather", lambda value, workspace: [value, 1 if silent else 0])
    manifest = type("Rows", (list,), {"path": "m.arrow"})(rows)
    place = SimpleNamespace(rank=1, world=3, main=main, log=logging.getLogger("dragoman"))
    assert evaluate._count_silence(manifest, place) == (3 if silent else 0)
    assert [row["number"] for row in heard] == [1, 4]
    assert (
        caplog.messages
        == [
            "m.arrow: 3 of 7 recordings hold no speech (detector: levels); "
            "they are translated and scored like the others"
        ]
        * warned
    )


def test_rows_without_a_reference_and_without_an_output_are_named(run, tmp_path):
    row = {"id": "a", "source_text": "x", "source_language": "en", "target_language": "de"}
    Manifest.write(tmp_path / "n.arrow", [row | {"target_text": "y"}, row | {"id": "b", "target_text": None}])
    texts = {"translation": SimpleNamespace(column="target_text", side="target", in_language=True)}
    system = SimpleNamespace(output_name="translation", texts=texts, source_languages=["en"], target_languages=["de"])
    with pytest.raises(DataError) as error:
        evaluate.TestSet(system, Manifest.open(tmp_path / "n.arrow"), ["bleu"])
    assert str(error.value) == f"{tmp_path / 'n.arrow'}: row 'b' has no target_text to score against"
    refuses(DataError, r"m\.arrow: 1 of 3 rows were not translated$", run, GERMAN[:2])


def test_an_evaluation_shows_its_rows_scores_and_alarms(run):
    found = run([" ", *GERMAN[1:]])
    lines = repr(found).splitlines()
    assert lines[0] == "translation (de): 3 rows" and lines[1].startswith("bleu")
    assert any(line.startswith("alarm: 33.3% of the outputs are empty") for line in lines)
    silent = evaluate.replace(found, without_speech=1234, further=[found])
    assert "alarm: 1,234 recordings without speech" in repr(silent)
    assert repr(silent).endswith(repr(found)) and silent.by_text == [silent, found]
    assert "recordings" not in repr(found) and found.by_text == [found]
