"""Translating a manifest and scoring the result, for validation, tests and the command alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import DataError, UsageError, plural
from dragoman.shared.evaluation.alarms import Alarm, detect, detect_off_target
from dragoman.shared.evaluation.metrics import METRICS, unknown
from dragoman.shared.evaluation.off_target import judge
from dragoman.shared.evaluation.outputs import Outputs
from dragoman.shared.evaluation.scores import SEVERAL, Score, TextScorer
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.processes import gather, on_main
from dragoman.shared.machine.progress import progress_bar
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.search.search import AnySearch
from dragoman.shared.sound.speech_activity import rows_without_speech, speech_detector
from dragoman.shared.systems.rows import translate_rows
from dragoman.shared.systems.system import System
from dragoman.shared.text import languages
from dragoman.shared.text.normalise import apply
from dragoman.shared.text.rewritten import rewritten
from dragoman.shared.text.tokenizer import for_language

#: Metrics that do not see what tokenizers of recognisers rewrite by design: case and punctuation.
OF_SPEECH = {"wer", "cer"}


@dataclass(frozen=True)
class Evaluation:
    """A system's outputs for a manifest, and their scores.

    Attributes:
        text: the name of the text that was scored: "translation", "transcript".
        outputs: the best hypothesis of every row, with references and sources.
        language: the code of the language that they are in.
        scores: the metrics that were asked for.
        off_target: the share of outputs in another language; None for a system that writes only one, unless languages
            were given for it to be held against, or if no output could be judged.
        alarms: what looks wrong with the outputs as a whole.
        without_speech: how many rows have a recording without speech (they are translated all the same); None for a
            system that does not read speech.
        further: the evaluations of other texts that the system wrote in the same pass.
    """

    text: str
    outputs: Outputs
    language: str
    scores: list[Score]
    off_target: Score | None
    alarms: list[Alarm]
    without_speech: int | None = None
    further: list[Evaluation] = field(default_factory=list)

    def __repr__(self) -> str:
        """Return the text's name, language and number of rows, a line for each score and alarm, and other texts."""
        rows = plural(len(self.outputs.hypotheses), "row")
        lines = [f"{self.text} ({self.language}): {rows}", *map(str, self.all_scores)]
        if self.without_speech:
            lines.append(f"alarm: {plural(self.without_speech, 'recording')} without speech")
        lines += [f"alarm: {alarm}" for alarm in self.alarms]
        return "\n".join([*lines, *map(str, self.further)])

    @property
    def all_scores(self) -> list[Score]:
        """The metrics that were asked for, and the off-target rate if there is one."""
        return [*self.scores, *([self.off_target] if self.off_target else [])]

    @property
    def by_text(self) -> list[Evaluation]:
        """This evaluation and those of further texts."""
        return [self, *self.further]


def check_metrics(metrics: Sequence[str], texts: Mapping[str, Sequence[str]] | None = None) -> None:
    """Raise a UsageError if a metric is unknown, among those of the output or of further texts."""
    for metric in (*metrics, *(name for names in (texts or {}).values() for name in names)):
        if metric not in METRICS:
            raise UsageError(unknown(metric))


def translate_share(
    system: System, manifest: Rows, *, search: AnySearch, budget: Budget, workspace: Workspace
) -> dict[int, Hypothesis]:
    """Translate this process's share of the rows; return the best hypothesis of each row, without its tokens."""
    share = {}
    with progress_bar(enabled=workspace.show_progress) as bar:
        task = bar.add_task("translating", total=-(-len(manifest) // workspace.world), status="")
        for number, hypotheses in translate_rows(
            system,
            manifest,
            search=search,
            budget=budget,
            autocast=workspace.autocast,
            workers=workspace.workers,
            rank=workspace.rank,
            world=workspace.world,
        ):
            share[number] = replace(hypotheses[0], tokens=[])
            bar.advance(task)
    return share


class TestSet:
    """The references for a text that a system writes of a manifest.

    The column that the system was trained to write is the reference; ``target_text_1``, ``target_text_2`` ... (or
    ``source_text_1`` ... for transcripts), if there are any, are further ones, of which a row need not have all.

    Args:
        system: whose translations they are.
        manifest: the rows.
        metrics: how to score.
        text: the name of the text; by default that of the system's output.

    Raises:
        UsageError: if the system writes no such text.
        DataError: if a row has no reference, naming the row; if there are no rows, or several languages to score; if
            a metric does not fit the language or the references.
    """

    def __init__(self, system: System, manifest: Manifest, metrics: list[str], text: str = "") -> None:
        self.system = system
        self.manifest = manifest
        self.text = text or system.output_name
        if self.text not in system.texts:
            raise UsageError(f"the system writes {' and '.join(system.texts)}, not {self.text!r}")
        self.field = system.texts[self.text]
        self.outputs, self.language = _references(self.field, manifest)
        self.scorer = TextScorer(self.outputs.references, self.language, metrics)

    def rewritten(self) -> str | None:
        """Say which references the system's tokenizer cannot write, and no output equals; None if it can write all."""
        if not self.field.of_pieces:
            return None
        references = [apply(self.field.normalizers, line or "", self.language) for line in self.outputs.references[0]]
        return rewritten(references, for_language(self.field.tokenizer, self.language))

    def evaluate(self, shares: Sequence[dict[int, Hypothesis]], in_play: Sequence[str] = ()) -> Evaluation:
        """Score what all processes have translated, by row number, and look for what is wrong with it as a whole.

        Outputs may be in the system's languages, or in those ``in_play`` beside.

        Raises:
            DataError: if a row was not translated.
        """
        hypotheses = {number: hypothesis for share in shares for number, hypothesis in share.items()}
        missing = len(self.manifest) - len(hypotheses)
        if missing:
            raise DataError(f"{self.manifest.path}: {missing} of {len(self.manifest)} rows were not translated")
        system, language = self.system, self.language
        lines = [hypotheses[number].texts[self.text] for number in range(len(self.manifest))]
        outputs = replace(self.outputs, hypotheses=lines)
        scores = [Score.of(counts) for counts in self.scorer.count(outputs.hypotheses)]
        references = [line or "" for line in outputs.references[0]]
        copies = outputs.sources if self.field.column != "source_text" else None  # a transcript is its source
        cut = [number for number in range(len(lines)) if hypotheses[number].cut]
        alarms = detect(lines, references=references, sources=copies, cut=cut)
        if not self.field.in_language:
            return Evaluation(self.text, outputs, language, scores, None, alarms)
        among = languages.union(system.source_languages, system.target_languages, list(in_play))
        judged = judge(outputs.hypotheses, language, among)
        alarms += detect_off_target(outputs.hypotheses, judged, usual=judge(references, language, among).share)
        written = system.source_languages if self.field.side == "source" else system.target_languages
        off_target = judged.score if len(written) > 1 or in_play else None
        return Evaluation(self.text, outputs, language, scores, off_target, alarms)


def _references(written: TextField, manifest: Manifest) -> tuple[Outputs, str]:
    """Return what a manifest gives to score against, without hypotheses yet, and the language that it is in.

    Labels, which are in no language, may be of texts or sounds in several: the code is :data:`SEVERAL`.
    """
    column = written.column
    columns = reference_columns(manifest, column)
    ids, references, sources, codes = [], [], [], set()
    for row in (manifest[i] for i in range(len(manifest))):
        if row[column] is None:
            raise DataError(f"{manifest.path}: row {row['id']!r} has no {column} to score against")
        if not all(isinstance(row[name], str | None) for name in columns):
            raise DataError(
                f"{manifest.path}: row {row['id']!r}: {', '.join(columns)} should be texts to score against"
            )
        ids.append(row["id"])
        references.append([row[name] for name in columns])
        sources.append(row["source_text"] or "")
        codes.add(row[f"{written.side}_language"])
    if None in codes or len(codes) != 1 and (written.in_language or not codes):
        what = f"references in {sorted(map(str, codes))}" if codes else "no rows"
        raise DataError(f"{manifest.path}: holds {what}; only references in one language can be scored")
    return Outputs(ids, [], [list(lines) for lines in zip(*references, strict=True)], sources), codes.pop() if len(
        codes
    ) == 1 else SEVERAL


def reference_columns(manifest: Manifest, column: str) -> list[str]:
    """Return the columns with references: the one that is trained on, then ``<column>_1`` ... by number."""
    further = [name for name in manifest.columns if re.fullmatch(rf"{column}_[0-9]+", name)]
    return [column, *sorted(further, key=lambda name: int(name.rpartition("_")[2]))]


def evaluate_system(
    system: System,
    manifest: Manifest,
    *,
    search: AnySearch,
    budget: Budget,
    metrics: list[str],
    workspace: Workspace,
    texts: Mapping[str, list[str]] | None = None,
    in_play: Sequence[str] = (),
) -> Evaluation:
    """Translate a manifest and score the best hypotheses against the column that the system was trained to write.

    Several processes share the translating; rank 0 scores; all return the same.

    Args:
        system: at the task that is tested.
        manifest: the rows.
        search: how to find outputs.
        budget: how large a batch may be.
        metrics: of the output.
        workspace: device, precision and processes.
        texts: metrics of further texts that the system writes in the same pass, by name: ``{"transcript": ["wer"]}``.
        in_play: languages beside the system's that outputs may be in; if given, off-target outputs of any system count.

    Raises:
        DataError: if the manifest cannot be scored (see :class:`TestSet`).
        UsageError: if the system does not write one of the texts.
    """
    wanted = {system.output_name: metrics} | dict(texts or {})
    tests = [TestSet(system, manifest, names, text) for text, names in wanted.items()]
    for test, names in zip(tests, wanted.values(), strict=True):
        problem = test.rewritten() if workspace.main and {*names} - OF_SPEECH else None
        if problem:
            workspace.log.warning("%s: references: %s", manifest.path, problem)
    share = translate_share(system, manifest, search=search, budget=budget, workspace=workspace)
    shares = gather(share, workspace)
    evaluation, *further = on_main(lambda: [test.evaluate(shares, in_play) for test in tests], workspace)
    evaluation = replace(evaluation, further=further)
    if "speech" not in system.reads:
        return evaluation
    return replace(evaluation, without_speech=_count_silence(manifest, workspace))


def _count_silence(manifest: Manifest, workspace: Workspace) -> int:
    """Return how many rows have a recording without speech, and warn of them; processes share the listening."""
    detector = speech_detector()
    mine = range(workspace.rank, len(manifest), workspace.world)
    silent = rows_without_speech((manifest[number] for number in mine), detector)
    count = sum(gather(len(silent), workspace))
    if count and workspace.main:
        workspace.log.warning(
            "%s: %d of %d recordings hold no speech (detector: %s); they are translated and scored like the others",
            manifest.path,
            count,
            len(manifest),
            detector.name,
        )
    return count
