"""The phases that test a model: translating and scoring test manifests, scoring the outputs that they hold."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.described import describe
from dragoman.shared.evaluation.rescoring import perplexity, rescore, write_rescored
from dragoman.shared.evaluation.results import commit, forget, hardware, minutes_so_far, record, split_name
from dragoman.shared.evaluation.scores import Score
from dragoman.shared.evaluation.scoring import Evaluation, check_metrics, evaluate_system
from dragoman.shared.machine.processes import MainPhase, on_main
from dragoman.shared.machine.records import read_record
from dragoman.shared.machine.workspace import Phase, Stopwatch, Workspace
from dragoman.shared.phases.averaging import AVERAGED
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.combining import LmWeight, check_joint, load_combined
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System


class Evaluate(Phase):
    """Translate test manifests with a model folder and score the output; several processes share the translating.

    Writes ``<folder>.<split>.tsv`` (see shared/evaluation/outputs.py) and a line per score to ``results.jsonl`` of the
    run's folder. Of a system that writes several texts in one pass, a further one is scored if ``texts`` names it; it
    has a table of its own, ``<folder>.<split>.<text>.tsv``, and its results carry its name.

    Args:
        model: a model folder.
        manifests: the tests, as paths or patterns.
        search: how to translate.
        budget: how large a batch may be.
        metrics: of the output: "bleu", "chrf", "ter", "wer", "cer" and others (shared/evaluation/metrics.py).
        texts: metrics of further texts that the system writes in the same pass, by name: ``{"transcript": ["wer"]}``.
        reads: the inputs that are read, if not those that the folder names: ``["source"]``.
        writes: the text that is written, if not the one that the folder names: "transcript".
        ensemble: model folders whose probabilities are averaged with the model's.
        language_model: the model folder of a language model that has a say in the search.
        lm_weight: its weight.
        ctc: translate through the model's CTC head.
        ctc_weight: the share of the CTC head in a joint search with the decoder; 0 for none.
        in_play: languages beside the system's that outputs may be in; if given, the share of those in a wrong language
            is measured of a system that writes one language, too.

    Raises:
        UsageError: for an unknown metric, or ``ctc_weight`` beside ``ctc`` or ``ensemble``.
    """

    measures: ClassVar[bool] = True

    def __init__(
        self,
        *,
        model: str,
        manifests: list[str],
        search: AnySearch,
        budget: Budget,
        metrics: list[str],
        texts: dict[str, list[str]] | None = None,
        reads: list[str] | None = None,
        writes: str | None = None,
        ensemble: list[str] | None = None,
        language_model: str | None = None,
        lm_weight: LmWeight = 0.3,
        ctc: bool = False,
        ctc_weight: float = 0.0,
        in_play: list[str] | None = None,
    ) -> None:
        check_metrics(metrics, texts)
        check_joint(ctc_weight, ctc=ctc, ensemble=ensemble or ())
        self.model = Path(model)
        self.manifests = list(manifests)
        self.search = search
        self.budget = budget
        self.metrics = list(metrics)
        self.texts = dict(texts or {})
        self.in_play = list(in_play or [])
        self.beside: dict[str, Any] = {
            "ensemble": list(ensemble or []),
            "language_model": language_model,
            "lm_weight": lm_weight if language_model else None,
            "ctc": ctc,
            "ctc_weight": ctc_weight or None,
            "reads": list(reads) if reads else None,
            "writes": writes,
        }

    def run(self, workspace: Workspace) -> None:
        """Evaluate on every manifest."""
        on_main(lambda: forget_earlier(workspace), workspace)
        if none_given(self.manifests, workspace):
            return
        beside = self.beside
        system = load_combined(
            self.model,
            workspace.device,
            autocast_dtype=workspace.autocast_dtype,
            ensemble=[Path(folder) for folder in beside["ensemble"]],
            language_model=Path(beside["language_model"]) if beside["language_model"] else None,
            lm_weight=beside["lm_weight"] or 0.0,
            ctc=beside["ctc"],
            ctc_weight=beside["ctc_weight"] or 0.0,
            reads=beside["reads"],
            writes=beside["writes"],
        )
        for path in find_manifests(self.manifests):
            self.evaluate(system, path, workspace)

    def evaluate(self, system: System, path: Path, workspace: Workspace) -> Evaluation:
        """Evaluate the loaded model on one manifest; write, log and return what comes out."""
        stopwatch = Stopwatch()
        manifest = opened(path, workspace)
        evaluation = self.evaluated(system, manifest, workspace)
        several = len(system.texts) > 1
        for one in evaluation.by_text:
            name = one.text if several or one.text in self.texts else ""
            on_main(partial(self._note, one, name, path, manifest, stopwatch, workspace), workspace)
        return evaluation

    def evaluated(self, system: System, manifest: Manifest, workspace: Workspace) -> Evaluation:
        """Translate and score a manifest."""
        return evaluate_system(
            system,
            manifest,
            search=self.search,
            budget=self.budget,
            metrics=self.metrics,
            workspace=workspace,
            texts=self.texts,
            in_play=self.in_play,
        )

    def _note(
        self,
        evaluation: Evaluation,
        text: str,
        path: Path,
        manifest: Manifest,
        stopwatch: Stopwatch,
        workspace: Workspace,
    ) -> None:
        for alarm in [] if workspace.debug else evaluation.alarms:  # two updates teach nobody to write
            workspace.log.warning("%s: %s", split_name(path), alarm)
        ending = f".{text}" if text in self.texts else ""
        table = workspace.folder / f"{path.parent.name}.{path.stem}{ending}.tsv"
        evaluation.outputs.write(table)
        how: dict[str, Any] = {
            "outputs": str(table.relative_to(workspace.output)),
            "language": evaluation.language,
            "beam": getattr(self.search, "beam", 1),
            "length_penalty": getattr(self.search, "length_penalty", None),
            "search": describe(self.search),
        }
        how |= {name: value for name, value in self.beside.items() if value}
        if text:
            how["text"] = text
        if evaluation.without_speech is not None:
            how["without_speech"] = evaluation.without_speech
        record_scores(evaluation.all_scores, split_name(path), manifest, self.model, workspace, stopwatch, how)


class MeasureManifests(MainPhase):
    """Measure a model on test manifests, one after another, and record the scores of each.

    Args:
        model: a model folder.
        manifests: the tests, as paths or patterns.
        budget: how large a batch may be.

    Attributes:
        measured: the class of the models that can be measured.
    """

    measures: ClassVar[bool] = True
    measured: ClassVar[type[ReadingModel]] = System

    def __init__(self, *, model: str, manifests: list[str], budget: Budget) -> None:
        self.model = Path(model)
        self.manifests = list(manifests)
        self.budget = budget

    def work(self, workspace: Workspace) -> None:
        """Measure every manifest."""
        forget_earlier(workspace)
        if none_given(self.manifests, workspace):
            return
        system: Any = self.measured.load(self.model, workspace.device)
        for path in find_manifests(self.manifests):
            stopwatch = Stopwatch()
            manifest = opened(path, workspace)
            scores, how = self.measure(system, manifest, f"{path.parent.name}.{path.stem}", workspace)
            record_scores(scores, split_name(path), manifest, self.model, workspace, stopwatch, how)

    @abstractmethod
    def measure(
        self, system: System, manifest: Manifest, name: str, workspace: Workspace
    ) -> tuple[list[Score], dict[str, Any]]:
        """Return the scores of the manifest that is called ``name``, and what else its rows of the results say."""


class Rescore(MeasureManifests):
    """Score the outputs that test manifests hold: their perplexity under a model, usually a language model.

    Writes ``<split>.tsv`` (a score per row) and a line per manifest to ``results.jsonl`` of the run's folder.
    """

    def measure(
        self, system: System, manifest: Manifest, name: str, workspace: Workspace
    ) -> tuple[list[Score], dict[str, Any]]:
        """Return the perplexity."""
        rescored = rescore(system, manifest, texts=None, budget=self.budget, workspace=workspace)
        write_rescored(rescored, workspace.folder / f"{name}.tsv")
        return [perplexity(rescored, system.output.tokenizer.fingerprint)], {}


def forget_earlier(workspace: Workspace) -> None:
    """Remove the scores of an earlier start of this phase, which was interrupted or is done again."""
    if workspace.recipe:
        forget(workspace.output / "results.jsonl", workspace.recipe, workspace.phase)


def none_given(manifests: Sequence[str], workspace: Workspace) -> bool:
    """Tell whether a phase has no tests, and say so: those of some directions are up to the user."""
    if not manifests:
        workspace.log.info("%s: no tests are given", workspace.phase)
    return not manifests


def opened(path: Path, workspace: Workspace) -> Manifest:
    """Open a test manifest; with ``--debug``, its first two rows."""
    manifest = Manifest.open(path)
    return manifest.select(range(min(2, len(manifest)))) if workspace.debug else manifest


def record_scores(
    scores: list[Score],
    split: str,
    manifest: Manifest | None,
    model: Path,
    workspace: Workspace,
    stopwatch: Stopwatch,
    how: dict[str, Any],
) -> None:
    """Log a test's scores and append them to the run's results, with all that is needed to trust or repeat them."""
    note = model / "averaged.json"
    averaged = read_record(note, AVERAGED, "a note of what was averaged") if note.is_file() else {}
    started = {"recipe": workspace.recipe, "arm": workspace.arm, "keys": workspace.keys, "seed": workspace.seed}
    if not workspace.recipe:  # a model folder by itself, evaluated by command: how it was trained, if that is known
        empty: dict[str, Any] = {"recipe": "", "arm": "", "keys": {}, "seed": None}
        started = empty | {key: averaged[key] for key in empty if key in averaged}
        started |= {} if averaged.get("recipe") else {"model": str(model)}
    common = {
        **started,
        "phase": workspace.phase,
        "split": split,
        "corpus": None if manifest is None else manifest.fingerprint[:12],
        "averaging": averaged.get("averaging", "none"),
        **how,
        "hardware": hardware(workspace.device),
        "minutes": round(minutes_so_far(workspace.output), 1) if workspace.recipe else None,
        "evaluation_minutes": round(stopwatch.seconds / 60, 2),
        "command": workspace.command,
        "commit": commit(),
    }
    for score in scores:
        workspace.log.info("%s: %s", split, score)
    record(workspace.output / "results.jsonl", [common | score.row() for score in scores])
