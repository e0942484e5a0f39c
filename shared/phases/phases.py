"""The phases around training: prepare a corpus, train a tokenizer, average checkpoints, evaluate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NotRequired

import torch

from shared.corpus.find import find_manifests
from shared.corpus.manifest import Manifest
from shared.corpus.normalise import Normalizer, apply
from shared.corpus.preparation import prepare
from shared.corpus.reader import Corpus
from shared.corpus.report import render
from shared.corpus.stream import Budget
from shared.described import describe
from shared.errors import DataError, UsageError
from shared.evaluation.rescoring import perplexity, rescore, write_rescored
from shared.evaluation.results import commit, forget, hardware, minutes_so_far, record, split_name
from shared.evaluation.scores import Score
from shared.evaluation.scoring import Evaluation, check_metrics, evaluate_system
from shared.machine.files import replaced_file
from shared.machine.processes import join, on_main
from shared.machine.progress import progress
from shared.machine.records import read_record
from shared.machine.workspace import Phase, Stopwatch, Workspace
from shared.nn.state import load_exactly
from shared.search.search import AnySearch
from shared.systems.combining import load_combined
from shared.systems.system import System
from shared.text.tokenizer import balanced, check_balance, check_training, train_sentencepiece
from shared.training.checkpoints import Checkpoint, Choice, list_checkpoints


class Write(Phase):
    """Make a corpus that is generated, not read; what is complete stays.

    Args:
        corpus: has ``root``, and ``write(progress=...)``.

    """

    def __init__(self, *, corpus: Any) -> None:
        self.corpus = corpus

    def outputs(self) -> list[Path]:
        """Name the corpus' folder."""
        return [Path(self.corpus.root)]

    def run(self, workspace: Workspace) -> None:
        """Write the corpus."""
        join(workspace)
        with progress("corpus", enabled=workspace.show_progress) as show:
            on_main(lambda: self.corpus.write(progress=show), workspace)


class Prepare(Phase):
    """Turn corpora on disk into manifests, ``<out>/<pair>/<split>.arrow``; what is there and unchanged stays.

    Args:
        corpora: readers (see mt/corpora and st/corpora).
        out: the folder for the manifests; several recipes may share it.
        skip_bad: leave training rows out that cannot be used, and list them in ``<split>.skipped.tsv``; otherwise they
            are an error, as they always are in other splits.

    """

    def __init__(self, *, corpora: list[Corpus], out: str, skip_bad: bool = False) -> None:
        self.corpora, self.out, self.skip_bad = corpora, Path(out), skip_bad

    def outputs(self) -> list[Path]:
        """Name the folder of the manifests."""
        return [self.out]

    def manifests_to_write(self) -> list[Path]:
        """Name the manifest of each split of each corpus."""
        return [self.out / corpus.folder / f"{split}.arrow" for corpus in self.corpora for split in corpus.splits()]

    def run(self, workspace: Workspace) -> None:
        """Prepare every corpus and log its table."""
        join(workspace)
        on_main(lambda: self._prepare(workspace), workspace)

    def _prepare(self, workspace: Workspace) -> None:
        for corpus in self.corpora:
            with progress(f"{corpus.name} {corpus.folder}", enabled=workspace.show_progress) as show:
                reports = prepare(corpus, self.out, progress=show, skip_bad=self.skip_bad)
            workspace.log.info("%s %s\n%s", corpus.name, corpus.folder, render(reports))


class TrainTokenizer(Phase):
    """Train a SentencePiece model on text columns of manifests; writes ``tokenizer.model``.

    Args:
        manifests: where the text comes from, as paths or patterns.
        columns: the columns to read: "source_text", "target_text".
        kind: "unigram", "bpe" or "char".
        size: how many pieces; fewer if the text does not have so many.
        alpha: languages are sampled in proportion to their share to this power (1: as they are, 0: equally often).
        coverage: the share of characters that become pieces of their own; the rest is spelled in bytes.
        normalisation: SentencePiece's rule: "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf" (both lower case), "identity".
        normalizers: changes to the texts of each column, those of the model's fields, so that both see the same text.
        limit: use at most so many sentences.

    """

    def __init__(
        self,
        *,
        manifests: list[str],
        columns: list[str],
        kind: str = "unigram",
        size: int = 8000,
        alpha: float = 1.0,
        coverage: float = 1.0,
        normalisation: str = "nmt_nfkc",
        normalizers: dict[str, list[Normalizer]] | None = None,
        limit: int = 5_000_000,
    ) -> None:
        named = [*columns, *(normalizers or {})]
        unknown = [column for column in named if column not in ("source_text", "target_text")]
        if unknown or not columns:
            raise UsageError(f"columns must be source_text and target_text, not {unknown or columns}")
        check_training(kind=kind, size=size, coverage=coverage, normalisation=normalisation)
        check_balance(alpha, limit)
        self.manifests, self.columns = list(manifests), list(columns)
        self.kind, self.size, self.alpha, self.coverage, self.limit = kind, size, alpha, coverage, limit
        self.normalisation, self.normalizers = normalisation, dict(normalizers or {})

    def run(self, workspace: Workspace) -> None:
        """Train; the same texts and seed give the same model."""
        join(workspace)
        on_main(lambda: self._train(workspace), workspace)

    def _train(self, workspace: Workspace) -> None:
        texts: dict[str, list[str]] = {}
        for language, text in self._texts():
            texts.setdefault(language, []).append(text)
        if not texts:
            raise DataError(f"{', '.join(self.manifests)}: no text in {', '.join(self.columns)}")
        mixed = balanced(texts, alpha=self.alpha, seed=workspace.seed_for("tokenizer"), limit=self.limit)
        out = workspace.folder / "tokenizer.model"
        train_sentencepiece(
            mixed,
            out,
            kind=self.kind,
            size=self.size,
            coverage=self.coverage,
            normalisation=self.normalisation,
        )

    def _texts(self) -> Iterator[tuple[str, str]]:
        for path in find_manifests(self.manifests):
            manifest = Manifest.open(path)
            for column in self.columns:
                languages = manifest.column(column.replace("_text", "_language")).to_pylist()
                for language, text in zip(languages, manifest.column(column).to_pylist(), strict=True):
                    changed = apply(self.normalizers.get(column, []), text or "", language)
                    if changed:
                        yield language, changed


class Average(Phase):
    """Average the parameters of checkpoints into a model folder (``model/``).

    Args:
        fit: the folder of a Fit phase.
        checkpoints: "last N": the newest ones; "best N": the best by the validation score.

    Raises:
        UsageError: for another choice.

    """

    def __init__(self, *, fit: str, checkpoints: str) -> None:
        self.fit = Path(fit)
        self.choice = Choice.read(checkpoints)

    def run(self, workspace: Workspace) -> None:
        """Average, and note in ``model/averaged.json`` what went in."""
        join(workspace)
        on_main(lambda: self._average(workspace), workspace)

    def _average(self, workspace: Workspace) -> None:
        found = list_checkpoints(self.fit / "checkpoints")
        chosen = self.choice.of(found)
        if not chosen:
            kind = "checkpoint with a score" if found else "checkpoint"
            raise DataError(f"{self.fit / 'checkpoints'}: no {kind} to average")
        if len(chosen) < self.choice.number:
            workspace.log.warning("%s: %d checkpoints, not the %s", self.fit, len(chosen), self.choice)
        system = System.from_description(self.fit / "system")
        load_exactly(system, average(chosen), str(self.fit / "checkpoints"))
        system.save(workspace.folder / "model")
        rule = str(replace(self.choice, number=len(chosen)))
        note: dict[str, Any] = {
            "averaging": rule,
            "updates": [c.update for c in chosen],
            "scores": [c.score for c in chosen],
            "recipe": workspace.recipe,
            "keys": workspace.keys,
            "seed": workspace.seed,
        }
        with replaced_file(workspace.folder / "model" / "averaged.json") as temporary:
            temporary.write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
        workspace.log.info("%s: %s of updates %s", workspace.phase, rule, ", ".join(map(str, note["updates"])))


#: What ``averaged.json`` says of how the model was trained.
AVERAGED: dict[str, Any] = {
    "averaging": NotRequired[str],
    "recipe": NotRequired[str],
    "keys": NotRequired[dict[str, Any]],
}


def average(checkpoints: list[Checkpoint]) -> dict[str, torch.Tensor]:
    """Return the mean of the system's tensors over checkpoints, computed in float64."""
    sums: dict[str, torch.Tensor] = {}
    types: dict[str, torch.dtype] = {}
    for checkpoint in checkpoints:
        for name, tensor in checkpoint.system_tensors().items():
            types[name] = tensor.dtype
            sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
    return {name: (total / len(checkpoints)).to(types[name]) for name, total in sums.items()}


class Evaluate(Phase):
    """Translate test manifests with a model folder and score the output; several processes share the translating.

    Writes ``<folder>.<split>.tsv`` (see shared/evaluation/outputs.py) and a line per score to ``results.jsonl`` of the
    run's folder.

    Args:
        model: a model folder.
        manifests: the tests, as paths or patterns.
        search: how to translate.
        budget: how large a batch may be.
        metrics: "bleu", "chrf", "ter", "wer", "cer".
        ensemble: model folders whose probabilities are averaged with the model's.
        language_model: the model folder of a language model that has a say in the search.
        lm_weight: its weight.
        ctc: translate through the model's CTC head.

    """

    def __init__(
        self,
        *,
        model: str,
        manifests: list[str],
        search: AnySearch,
        budget: Budget,
        metrics: list[str],
        ensemble: list[str] | None = None,
        language_model: str | None = None,
        lm_weight: float = 0.3,
        ctc: bool = False,
    ) -> None:
        check_metrics(metrics)
        self.model, self.manifests = Path(model), list(manifests)
        self.search, self.budget, self.metrics = search, budget, list(metrics)
        self.beside: dict[str, Any] = {
            "ensemble": list(ensemble or []),
            "language_model": language_model,
            "lm_weight": lm_weight if language_model else None,
            "ctc": ctc,
        }

    def run(self, workspace: Workspace) -> None:
        """Evaluate on every manifest."""
        join(workspace)
        on_main(lambda: _forget_earlier(workspace), workspace)
        beside = self.beside
        system = load_combined(
            self.model,
            workspace.device,
            autocast_dtype=workspace.autocast_dtype,
            ensemble=[Path(folder) for folder in beside["ensemble"]],
            language_model=Path(beside["language_model"]) if beside["language_model"] else None,
            lm_weight=beside["lm_weight"] or 0.0,
            ctc=beside["ctc"],
        )
        for path in find_manifests(self.manifests):
            self.evaluate(system, path, workspace)

    def evaluate(self, system: System, path: Path, workspace: Workspace) -> Evaluation:
        """Evaluate the loaded model on one manifest; write, log and return what comes out."""
        stopwatch = Stopwatch()
        manifest = _opened(path, workspace)
        evaluation = evaluate_system(
            system, manifest, search=self.search, budget=self.budget, metrics=self.metrics, workspace=workspace
        )
        on_main(lambda: self._note(evaluation, path, manifest, stopwatch, workspace), workspace)
        return evaluation

    def _note(
        self, evaluation: Evaluation, path: Path, manifest: Manifest, stopwatch: Stopwatch, workspace: Workspace
    ) -> None:
        for alarm in evaluation.alarms:
            workspace.log.warning("%s: %s", split_name(path), alarm)
        table = workspace.folder / f"{path.parent.name}.{path.stem}.tsv"
        evaluation.outputs.write(table)
        how: dict[str, Any] = {
            "outputs": str(table.relative_to(workspace.output)),
            "language": evaluation.language,
            "beam": getattr(self.search, "beam", 1),
            "length_penalty": getattr(self.search, "length_penalty", None),
            "search": describe(self.search),
        }
        how |= {name: value for name, value in self.beside.items() if value}
        if evaluation.without_speech is not None:
            how["without_speech"] = evaluation.without_speech
        _record(evaluation.all_scores, path, manifest, self.model, workspace, stopwatch, how)


class Rescore(Phase):
    """Score the outputs that test manifests hold: their perplexity under a model, usually a language model.

    Writes ``<split>.tsv`` (a score per row) and a line per manifest to ``results.jsonl`` of the run's folder.

    Args:
        model: a model folder.
        manifests: the tests, as paths or patterns.
        budget: how large a batch may be.

    """

    def __init__(self, *, model: str, manifests: list[str], budget: Budget) -> None:
        self.model, self.manifests, self.budget = Path(model), list(manifests), budget

    def run(self, workspace: Workspace) -> None:
        """Score every manifest."""
        join(workspace)
        on_main(lambda: self._rescore(workspace), workspace)

    def _rescore(self, workspace: Workspace) -> None:
        _forget_earlier(workspace)
        system = System.load(self.model, workspace.device)
        for path in find_manifests(self.manifests):
            stopwatch = Stopwatch()
            manifest = _opened(path, workspace)
            rescored = rescore(system, manifest, texts=None, budget=self.budget, workspace=workspace)
            write_rescored(rescored, workspace.folder / f"{path.parent.name}.{path.stem}.tsv")
            scores = [perplexity(rescored, system.output.tokenizer.fingerprint)]
            _record(scores, path, manifest, self.model, workspace, stopwatch, {})


def _forget_earlier(workspace: Workspace) -> None:
    """Remove the scores of an earlier start of this phase, which was interrupted or is done again."""
    if workspace.recipe:
        forget(workspace.output / "results.jsonl", workspace.recipe, workspace.phase)


def _opened(path: Path, workspace: Workspace) -> Manifest:
    manifest = Manifest.open(path)
    return manifest.select(range(min(2, len(manifest)))) if workspace.debug else manifest


def _record(
    scores: list[Score],
    path: Path,
    manifest: Manifest,
    model: Path,
    workspace: Workspace,
    stopwatch: Stopwatch,
    how: dict[str, Any],
) -> None:
    """Log scores and append them to the run's results, with all that is needed to trust or repeat them."""
    note = model / "averaged.json"
    averaged = read_record(note, AVERAGED, "a note of what was averaged") if note.is_file() else {}
    started = {"recipe": workspace.recipe, "keys": workspace.keys, "seed": workspace.seed}
    if not workspace.recipe:  # a model folder by itself, evaluated by command: how it was trained, if that is known
        started = {"recipe": averaged.get("recipe", ""), "keys": averaged.get("keys", {}), "seed": averaged.get("seed")}
        started |= {} if averaged.get("recipe") else {"model": str(model)}
    common = {
        **started,
        "phase": workspace.phase,
        "split": split_name(path),
        "corpus": manifest.fingerprint[:12],
        "averaging": averaged.get("averaging", "none"),
        **how,
        "hardware": hardware(workspace.device),
        "minutes": round(minutes_so_far(workspace.output), 1) if workspace.recipe else None,
        "evaluation_minutes": round(stopwatch.seconds / 60, 2),
        "command": workspace.command,
        "commit": commit(),
    }
    for score in scores:
        workspace.log.info("%s: %s", split_name(path), score)
        record(workspace.output / "results.jsonl", common | score.row())
