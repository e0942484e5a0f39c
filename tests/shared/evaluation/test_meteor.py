"""METEOR: figures that its authors print, and values by hand; and the program itself, where Java and its folder are."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.meteor import OTHERS, SETTINGS, VARIABLE, MeteorMetric
from dragoman.shared.evaluation.scores import TextScorer, score
from tests.small import refuses

PACKAGE = find_spec("pycocoevalcap")
FOLDER = os.environ.get(VARIABLE) or (PACKAGE and Path(PACKAGE.submodule_search_locations[0], "meteor")) or ""
ARCHIVE = Path(FOLDER, "meteor-1.5.jar").resolve()
needs_program = pytest.mark.skipif(
    shutil.which("java") is None or not ARCHIVE.is_file(), reason=f"needs java and meteor-1.5.jar in {VARIABLE}"
)


class Java:
    """A program of that name which keeps what it is asked, and answers what it was told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def answers(self, *rows: str, code: int = 0, said: str = "") -> None:
        (self.folder / "answer").write_text("".join(f"{row}\n" for row in rows))
        script = f"cd '{self.folder}'\necho \"$*\" > asked\ncat > read\ncat answer\necho '{said}' >&2\nexit {code}\n"
        (self.folder / "java").write_text(f"#!/bin/sh\n{script}")
        (self.folder / "java").chmod(0o755)

    def read(self) -> list[str]:
        return (self.folder / "read").read_text(encoding="utf-8").split("\n")


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """Java and Meteor's folder, with the tables of English and German."""
    for name in ("meteor/meteor-1.5.jar", "meteor/data/paraphrase-en.gz", "meteor/data/paraphrase-de.gz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "meteor"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    java = Java(tmp_path)
    java.answers()
    return java


#: "on the mat sat the dog" for "the cat sat on the mat": three function words of six, of five matches, in three chunks.
DOG = "6 6 3 3 2 2 3 3" + " 0" * 12 + " 3 5 5"
WHOLE = "3 3 1 1 2 2 1 1" + " 0" * 12 + " 1 3 3"
NOTHING = "0 3 0 1" + " 0" * 19


def test_it_has_the_figures_that_its_authors_print(java: Java) -> None:
    """README of Meteor, section 3: all counts, precision, recall, penalty; function words by its precision, recall."""
    stages = [16268, 16268, 20842, 20842, 485, 489, 26, 22, 820, 845, 119, 94, 3813, 3954, 3162, 2717]
    totals = np.array([61600, 62469, 32289, 31101, *stages, 20118, 45535, 45231], dtype=np.float64)
    assert MeteorMetric("meteor", [["a"]], "en").formula(totals) == pytest.approx(32.04832379614146, abs=1e-9)


def test_it_is_made_of_the_sums_of_what_the_program_counts(java: Java) -> None:
    """By hand: a whole text has no penalty, and no chunk in the sum; an empty text has a length, and no match."""
    java.answers(DOG, WHOLE, NOTHING)
    [found] = TextScorer(["the cat sat on the mat", "a dog runs", "a dog runs"], "en", ["meteor"]).count(
        ["on the mat sat the dog", "a dog runs", ""]
    )
    first = (0.75 * 2 + 0.25 * 3) / (0.75 * 3 + 0.25 * 3)  # precision, and recall
    alone = 100 * first * (1 - 0.6 * (3 / 5) ** 0.2)
    assert found.formula(found.values) == pytest.approx([alone, 100, 0])
    matched, written, wanted = 2.25 + 1.75, 3 + 1.75, 3 + 2 * 1.75
    mean = (matched / written) * (matched / wanted) / (0.85 * matched / written + 0.15 * matched / wanted)
    assert found.score == pytest.approx(100 * mean * (1 - 0.6 * (3 / 8) ** 0.2)) and found.higher_is_better
    assert found.signature == "meteor-1.5-wo-en-norm-0.85_0.2_0.6_0.75-ex_st_sy_pa-1.0_0.6_0.8_0.6"
    java.answers(NOTHING)
    assert score([""], ["a dog runs"], "en", ["meteor"])[0].value == 0


def test_stages_have_their_weights_and_both_sides_their_own_words(java: Java) -> None:
    """By hand, in German: three stages; a paraphrase of two words for one; other words of either side."""
    java.answers("5 4 2 1 1 1 1 1 1 1 0 0 2 1 0 0 0 0 0 0 2 5 4")
    [found] = score(["a"], ["b"], "de", ["meteor"])
    precision = (0.55 * (1 + 0.8 + 0.2 * 2) + 0.45 * 1) / (0.55 * 3 + 0.45 * 2)
    recall = (0.55 * (1 + 0.8 + 0.2) + 0.45 * 1) / (0.55 * 3 + 0.45 * 1)
    mean = precision * recall / (0.95 * precision + 0.05 * recall)
    assert found.value == pytest.approx(100 * mean * (1 - 0.55 * 2 / 4.5))


def test_texts_are_lines_whatever_is_in_them(java: Java) -> None:
    java.answers(*[WHOLE] * 4)
    hypotheses = ["one\ntwo\r\u2028three\u00a0\tfour ", "a ||| b||||", "", "cafe\u0301"]
    [found] = score(hypotheses, [["x", "", "y", "z"], [None, "|", None, "EVAL"]], "en", ["meteor"])
    assert java.read() == [
        "SCORE ||| x ||| one two three four",
        "SCORE |||  ||| | ||| a | | | b| | | |",
        "SCORE ||| y ||| ",
        "SCORE ||| z ||| EVAL ||| café",
        "",
    ]
    assert found.signature.endswith("|unicode:nfc")
    asked = (java.folder / "asked").read_text().strip()
    assert asked.endswith(f"- - -stdio -l en -norm -a {java.folder}/meteor/data/paraphrase-en.gz")


@pytest.mark.parametrize(
    ("language", "code", "line", "unit"),
    [
        ("it", "it", "l albero è là", "words"),
        ("nb", "no", "l albero è là", "words"),
        ("ar", "other", "l albero è là", "words"),
        ("zh-TW", "other", "l a l b e r o è l à", "characters"),
    ],
)
def test_words_that_the_program_does_not_divide_are_those_of_wer(
    language: str, code: str, line: str, unit: str, java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    java.answers(WHOLE)
    [found] = score(["L albero è là!"], ["x"], language, ["meteor"])
    assert java.read()[0] == f"SCORE ||| x ||| {line}"
    assert (java.folder / "asked").read_text().strip().endswith(f"-stdio -l {code}")
    assert f"-wo-{code}-no_norm-" in found.signature
    assert found.signature.endswith(f"|tok:{unit}|norm:nopunct+lower|lang:{language.split('-')[0]}")


def test_what_is_missing_is_said_before_anything_is_translated(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses(UsageError, r"paraphrase-fr\.gz: no such file.* METEOR_FOLDER name .*gz", MeteorMetric, "meteor", [], "fr")
    monkeypatch.setenv(VARIABLE, "/nowhere")
    refuses(UsageError, r"/nowhere/meteor-1\.5\.jar: no such file", MeteorMetric, "meteor", [["a"]], "en")
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr("dragoman.shared.evaluation.meteor.find_spec", lambda name: None)
    refuses(UsageError, "needs Meteor 1.5: .*pip install --no-deps pycocoevalcap", MeteorMetric, "meteor", [], "en")
    monkeypatch.setenv("PATH", "/nowhere")
    refuses(UsageError, "the metric meteor needs Java: apt-get install", MeteorMetric, "meteor", [["a"]], "en")


@pytest.mark.parametrize(
    ("rows", "code", "message"),
    [
        ([WHOLE], 0, r"failed on 2 texts \(exit code 0\): 1 of 2 lines"),
        ([WHOLE, "Error: specify SCORE or EVAL"], 0, "exit code 0.*specify SCORE"),
        ([WHOLE, WHOLE], 1, "exit code 1.*not enough memory"),
    ],
)
def test_a_program_that_fails_is_an_error(rows: list[str], code: int, message: str, java: Java) -> None:
    java.answers(*rows, code=code, said="not enough memory" if code else "")
    refuses(DataError, message, score, ["a", "b"], ["a", "b"], "en", ["meteor"])


def test_no_process_stays_behind(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def interrupted(process: subprocess.Popen[str], *arguments: object, **named: object) -> None:
        started.append(process)
        raise KeyboardInterrupt

    (java.folder / "java").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        score(["a"], ["a"], "en", ["meteor"])
    assert started[0].returncode == -9


HYPOTHESES = ["on the mat sat the dog", "", "Huge dogs  were running\nfast.", "a ||| b |||| c|", "“It’s” 5:30 p.m."]
REFERENCES = ["the cat sat on the mat", "nothing", "A large dog ran.", "a ||| b |||| c|", "It is 5:30 p.m., isn't it?"]


def oracle(folder: Path, sets: list[list[str]], language: str, program: Path) -> list[float]:
    """The program's scores of texts in files, and the last of all of them."""
    for name, texts in (("h", sets[-1]), ("r", [line for row in zip(*sets[:-1], strict=True) for line in row])):
        (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    command = ["java", "-Xmx2G", "-jar", program, folder / "h", folder / "r", "-l", language, "-r", len(sets) - 1]
    norm = ["-norm"] if language in ("en", "de") else []
    said = subprocess.run([*map(str, command), *norm], capture_output=True, text=True, check=True).stdout
    marks = ("Segment ", "Final score")
    return [100 * float(line.rpartition(":")[2]) for line in said.splitlines() if line.startswith(marks)]


@needs_program
def test_it_is_the_program_on_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(FOLDER))
    flat = [" ".join(line.split()) for line in HYPOTHESES]
    for sets in ([REFERENCES], [REFERENCES, ["the mat", "", "big dogs", "|", "x"]]):
        [found] = TextScorer(sets, "en", ["meteor"]).count(HYPOTHESES)
        values = [*found.formula(found.values), found.score]
        assert values == pytest.approx(oracle(tmp_path, [*sets, flat], "en", ARCHIVE), abs=1e-9)
        assert 20 < found.score < 60


@needs_program
def test_other_languages_are_the_program_on_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a table of two lines for German, in a folder with a space; Italian has stems, Chinese characters alone."""
    program = tmp_path / "a folder"
    (program / "data").mkdir(parents=True)
    shutil.copy(ARCHIVE, program)
    with gzip.open(program / "data" / "paraphrase-de.gz", "wt", encoding="utf-8") as table:
        table.write("0.5\nim gange\nin arbeit\n")
    monkeypatch.setenv(VARIABLE, str(program))
    plain = tmp_path / "plain"  # the program does not find its table beside itself where there is a space
    shutil.copytree(program, plain)
    texts = {
        "de": (["Die Häuser sind, wie z.B. dieses, im Gange."], ["Das Haus ist in Arbeit, wie dieses."], "de"),
        "it": (["i gatti dormono bene"], ["il gatto dorme"], "it"),
        "zh": (["他 不 知 道"], ["他 知 道"], "other"),
    }
    for language, (hypotheses, references, code) in texts.items():
        [found] = TextScorer(references, language, ["meteor"]).count(hypotheses)
        expected = oracle(tmp_path, [references, hypotheses], code, plain / ARCHIVE.name)
        assert [found.score] * 2 == pytest.approx(expected, abs=1e-9) and 5 < found.score < 99, language


@needs_program
def test_settings_are_the_programs_own(tmp_path: Path) -> None:
    (tmp_path / "line").write_text("a\n")
    for settings in {*SETTINGS.values(), OTHERS}:
        code, norm = settings.split("-")[:2]
        words = ["-norm"] if norm == "norm" else []
        command = ["java", "-jar", str(ARCHIVE), *[str(tmp_path / "line")] * 2, "-l", code, *words]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        assert said.split("Eval ID:")[1].split()[0] == f"meteor-1.5-wo-{settings}"
