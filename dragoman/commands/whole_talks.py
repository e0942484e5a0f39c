"""Whole recordings, scored: a system divides them as it would a user's, and its text is cut to the references."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.errors import UsageError
from dragoman.shared.evaluation.resegment import resegment_text, rows_of_recordings
from dragoman.shared.evaluation.scoring import Evaluation, TestSet
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.processes import gather, on_main
from dragoman.shared.machine.progress import progress_bar
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.search.search import AnySearch
from dragoman.shared.sound.pauses import file_segments
from dragoman.shared.sound.segmentation import Segmenter
from dragoman.shared.systems.system import System
from dragoman.shared.text.units import joined


def evaluate_talks(
    system: System,
    manifest: Manifest,
    *,
    search: AnySearch,
    metrics: list[str],
    workspace: Workspace,
    batch_size: int = 16,
    segmenter: Segmenter = file_segments,
    maximum_seconds: float = 20.0,
    texts: Mapping[str, list[str]] | None = None,
) -> list[Evaluation]:
    """Translate the recordings that a manifest has rows of, whole, and score what is nearest to each row's reference.

    Several processes share the recordings; rank 0 scores; all return the same. The rows say which lines a recording has
    and in which order, but not where the system may cut it.

    Args:
        system: one that reads speech.
        manifest: the rows.
        search: how to find outputs.
        metrics: of the output.
        workspace: precision and processes.
        batch_size: how many segments are translated at a time, at most.
        segmenter: divides the recordings.
        maximum_seconds: the longest segment, at least 1; what the system was trained on is a good choice.
        texts: metrics of further texts that the system writes in the same pass, by name.

    Returns:
        The evaluation of the output, and those of the further texts.

    Raises:
        DataError: if a row has no recording, or the manifest cannot be scored.
        UsageError: if the system reads text, or the longest segment is below a second.
    """
    if "speech" not in system.reads:
        raise UsageError("whole talks need a system that reads speech")
    wanted = {system.output_name: metrics} | dict(texts or {})
    tests = [TestSet(system, manifest, names, text) for text, names in wanted.items()]
    talks = rows_of_recordings(manifest)
    division = {"segmenter": segmenter, "maximum_seconds": maximum_seconds}
    share: dict[int, Hypothesis] = {}
    with progress_bar(enabled=workspace.show_progress) as bar:
        mine = list(talks)[workspace.rank :: workspace.world]
        task = bar.add_task("talks", total=len(mine), status="")
        for file in mine:
            row = manifest[talks[file][0]]
            codes = {side: row[side] for side in ("source_language", "target_language")}
            with workspace.autocast():
                [segments] = system.timed([file], search=search, batch_size=batch_size, **division, **codes)
            if cut := sum(segment.cut for segment in segments):  # of segments: which lines end so, nobody knows
                workspace.log.warning(
                    "%s: %d of %d segments are cut off at the maximum length", file, cut, len(segments)
                )
            for test in tests:
                whole = joined((segment.texts[test.text] for segment in segments), test.language)
                lines = [test.outputs.references[0][number] or "" for number in talks[file]]
                for number, line in zip(talks[file], resegment_text(whole, lines, test.language), strict=True):
                    share.setdefault(number, Hypothesis([], 0.0)).texts[test.text] = line
            bar.advance(task)
    shares = gather(share, workspace)
    return on_main(lambda: [test.evaluate(shares) for test in tests], workspace)
