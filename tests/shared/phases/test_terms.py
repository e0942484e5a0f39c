"""Terms of an objective measured on test data, with the parameters of a model folder."""

import torch
from safetensors.torch import save_file
from torch import nn

from dragoman import Manifest, UsageError
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.results import read
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.objectives.objective import Loss, Objective, Term
from dragoman.shared.phases import MeasureTerms
from tests import small
from tests.small import refuses


class Words:
    """A text as its words' lengths."""

    unit, padding, overhead = "tokens", 0.0, 0

    def __call__(self, row, rng):
        return torch.tensor([len(word) for word in row["source_text"].split()])

    def lengths(self, rows, folder=None):
        return torch.tensor([len(row["source_text"].split()) for row in rows]).numpy()


class Longer(Objective):
    """Tells which words are longer than a parameter, and whether prepare was called."""

    def __init__(self):
        super().__init__()
        self.system = nn.Linear(1, 1, bias=False)

    def prepare(self, batch):
        return batch.with_fields(prepared=batch["source"])

    def forward(self, batch):
        words = batch["prepared"]
        longer = (words.values > self.system.weight[0, 0]) & words.mask
        return Loss({"longer": Term(longer.sum(), words.lengths.sum())})


def measured(folder, terms):
    rows = [
        small.row(n, text) | {"target_language": "de"} for n, text in enumerate(["a bcd ef", "ghijk", "l mnop q r"])
    ]
    Manifest.write(folder / "en-de" / "test.arrow", rows)
    (folder / "model").mkdir()
    save_file({"weight": torch.tensor([[1.5]])}, folder / "model" / "model.safetensors")
    phase = MeasureTerms(
        objective=Longer(),
        model=str(folder / "model"),
        manifests=[str(folder / "en-de" / "test.arrow")],
        fields={"source": Words()},
        terms=terms,
        budget=Budget(rows=2),
    )
    phase.run(Workspace(output=folder / "run", phase="measure"))
    return read(folder / "run" / "results.jsonl")


def test_a_share_is_measured_over_all_batches(tmp_path):
    [row] = measured(tmp_path, ["longer"])
    assert (row["metric"], row["split"], row["lines"], row["phase"]) == ("longer", "en-de/test", 3, "measure")
    assert row["value"] == 50.0  # bcd, ef, ghijk, mnop of eight words
    assert row["signature"] == "longer|count:8|read:source"


def test_terms_that_there_are_not_are_refused(tmp_path):
    refuses(UsageError, "no term 'shorter', only longer", measured, tmp_path, ["longer", "shorter"])
