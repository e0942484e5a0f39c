"""Translation of whole documents by a translator that was pre-trained on texts of several sentences (mBART).

Liu et al. 2020, "Multilingual Denoising Pre-training for Neural Machine Translation", section 4. A document is divided
into parts of at most 512 tokens, with a symbol between the sentences; the model translates a part at once and is not
told how many sentences it has to write. Its end is another symbol than that between sentences
(``shared/batches/separated.py``), so that the search goes on from sentence to sentence. d-BLEU compares documents: the
translations of a document's sentences are joined, and n-grams may go from one sentence to the next. s-BLEU compares
sentences, into which the separators of an output divide it.

Differs from the paper: the separator is ``<sep>``, and ``</s>`` the end, where the paper has ``</s>`` between sentences
and the language's symbol at the end; with ``separator: </s>`` both are as there, as an imported mBART has learnt them
(text/documents). Where an output has more or fewer sentences than its source, the paper has no s-BLEU; here the output
is cut where it is nearest to the references, by edit distance (``shared/evaluation/resegment.py``), and the number of
such outputs is told. ``dragoman translate --documents``, which has no references, translates such parts by sentences.

Not established: whether training and test data were divided in the same way, and what became of sentences of more than
512 tokens; here those are parts by themselves, and training leaves them out.

Not implemented: hierarchical attention, the paper's baseline of other authors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.find import written_below
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.separated import LINE, SeparatedText, spans
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.outputs import Outputs
from dragoman.shared.evaluation.resegment import resegment_text
from dragoman.shared.evaluation.scores import Score, TextScorer
from dragoman.shared.evaluation.scoring import Evaluation, TestSet, translate_share
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.processes import MainPhase, gather, on_main
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.evaluating import Evaluate
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.systems.system import System
from dragoman.shared.text.units import joined

TEXTS = ("source_text", "target_text")
#: What scores of whole documents are of, in results.
DOCUMENTS = "documents"


def of_documents(*, system: System, separator: str = "<sep>", maximum: PositiveInt = 512) -> System:
    """Return a system with the same model that reads and writes the sentences of a document, a line each.

    Args:
        system: a translator of sentences, to be trained on documents.
        separator: the symbol between sentences: ``<sep>``, or for mBART ``</s>``.
        maximum: the most tokens of a part, symbols included.

    Raises:
        DataError: if the tokenizer has no such separator.
        UsageError: if it reads something else than one text.
    """
    source = system.inputs.get("source")
    if not isinstance(source, TextField) or len(system.inputs) > 1:
        raise UsageError(f"documents are read by a translator of one text, not of {' and '.join(system.inputs)}")
    read, written = (SeparatedText(field=one, separator=separator, maximum=maximum) for one in (source, system.output))
    other = type(system)(**system.arguments | {"inputs": {"source": read}, "output": written})
    other.origin, other.autocast_dtype = list(system.origin), system.autocast_dtype
    return other


class JoinSentences(MainPhase):
    """Join the sentences of documents, rows that follow each other, to the parts that a translator of documents reads.

    Writes ``<out>/<pair>/<split>.arrow`` for each manifest ``.../<pair>/<split>.arrow``. No sentence is divided, and
    both sides of a part have the same sentences, a line each.

    Args:
        manifests: paths or patterns.
        fields: the texts by name; parts have room in all of them.
        out: the folder.

    Raises:
        DataError: when it runs, for a row without a document or a text, or manifests that would be written over.
    """

    def __init__(self, *, manifests: list[str], fields: Mapping[str, SeparatedText], out: str) -> None:
        self.manifests = list(manifests)
        self.fields = dict(fields)
        self.out = Path(out)

    def outputs(self) -> list[Path]:
        """Name the folder."""
        return [self.out]

    def work(self, workspace: Workspace) -> None:
        """Write the parts of each manifest."""
        for path, place in written_below(self.out, self.manifests):
            manifest = Manifest.open(path)
            parts = parts_of(manifest, self.fields)
            Manifest.write(place, (joined_row(manifest, part) for part in parts))
            workspace.log.info("%s: %s: %d sentences in %d parts", workspace.phase, place, len(manifest), len(parts))


def parts_of(manifest: Manifest, fields: Mapping[str, SeparatedText]) -> list[range]:
    """Return the rows of each part of a manifest's documents; without a field, each row is one.

    Raises:
        DataError: for a row without a document, or without the text of a field.
    """
    documents = _documents(manifest)
    if not fields:
        return [range(number, number + 1) for number in range(len(manifest))]
    for field in fields.values():
        if nulls := manifest.column(field.column).null_count:
            raise DataError(f"{manifest.path}: {nulls} rows have no {field.column}")
    return spans(documents, [(field, manifest) for field in fields.values()])


def joined_row(manifest: Manifest, part: range) -> Row:
    """Return the row of a part: named after its first sentence, each text with a line for each sentence."""
    first, *_ = rows = [manifest[number] for number in part]
    lines = {name: [row[name] for row in rows] for name in TEXTS}
    texts = {
        name: None if None in sentences else LINE.join(text.replace(LINE, " ") for text in sentences)
        for name, sentences in lines.items()
    }
    return {name: first[name] for name in ("id", "document", "source_language", "target_language")} | texts


def _documents(manifest: Manifest) -> list[str]:
    documents = manifest.column("document").to_pylist()
    for number, document in enumerate(documents):
        if not document:
            raise DataError(f"{manifest.path}: row {manifest[number]['id']} has no document")
    return documents


class EvaluateDocuments(Evaluate):
    """Translate documents of test manifests, whose rows are sentences, and score sentences and documents.

    A model that reads separated sentences is given parts of documents, cut by its source; another one, each sentence
    alone. Metrics of sentences are those of ``metrics``, and those of documents ``texts`` names: ``{"documents":
    ["bleu"]}``, which the results call so; their tables are ``<folder>.<split>.tsv`` and
    ``<folder>.<split>.documents.tsv``.
    """

    def evaluated(self, system: System, manifest: Manifest, workspace: Workspace) -> Evaluation:
        """Return the evaluation of the sentences, and that of the documents as a further one.

        Raises:
            DataError: for a row without a document, or a manifest that cannot be scored.
            UsageError: if metrics of another text are asked for.
        """
        if {*self.texts} != {DOCUMENTS}:
            raise UsageError(f"texts must have the metrics of {DOCUMENTS!r}, not of {', '.join(self.texts) or 'none'}")
        test = TestSet(system, manifest, self.metrics)
        fields = {name: field for name, field in system.input_fields.items() if isinstance(field, SeparatedText)}
        parts = parts_of(manifest, fields)
        rows = [joined_row(manifest, part) for part in parts]
        share = translate_share(system, rows, search=self.search, budget=self.budget, workspace=workspace)
        shares = gather(share, workspace)
        return on_main(partial(self._scored, test, parts, shares, workspace), workspace)

    def _scored(
        self, test: TestSet, parts: Sequence[range], shares: Sequence[dict[int, Hypothesis]], workspace: Workspace
    ) -> Evaluation:
        written = {number: hypothesis for share in shares for number, hypothesis in share.items()}
        sentences: dict[int, Hypothesis] = {}
        others = 0
        for number, part in enumerate(parts):
            lines = written[number].texts[test.text].split(LINE)
            if len(lines) != len(part):
                others += 1
                references = [test.outputs.references[0][row] or "" for row in part]
                lines = resegment_text(" ".join(lines), references, test.language)
            for row, line in zip(part, lines, strict=True):
                cut = written[number].cut and row == part[-1]
                sentences[row] = Hypothesis([], written[number].score, {test.text: line}, cut=cut)
        workspace.log.info(
            "%s: %d of %d outputs have another number of sentences than their sources, and are cut by their references",
            test.manifest.path,
            others,
            len(parts),
        )
        evaluation = test.evaluate([sentences], self.in_play)
        outputs = by_document(evaluation.outputs, test.manifest, test.language)
        scorer = TextScorer(outputs.references, test.language, self.texts[DOCUMENTS])
        scores = [Score.of(counts) for counts in scorer.count(outputs.hypotheses)]
        whole = replace(evaluation, text=DOCUMENTS, outputs=outputs, scores=scores, off_target=None, alarms=[])
        return replace(evaluation, further=[whole])


def by_document(outputs: Outputs, manifest: Manifest, language: str) -> Outputs:
    """Return the outputs of a manifest's sentences joined to those of its documents."""
    runs = [[*run] for _, run in groupby(range(len(manifest)), _documents(manifest).__getitem__)]

    def whole(texts: Sequence[str | None], code: str) -> list[str]:
        return [joined((texts[number] or "" for number in run), code) for run in runs]

    return Outputs(
        ids=[str(manifest[run[0]]["document"]) for run in runs],
        hypotheses=whole(outputs.hypotheses, language),
        references=[list(whole(lines, language)) for lines in outputs.references],
        sources=whole(outputs.sources, manifest[0]["source_language"] or language),
    )
