"""``dragoman translate --documents``: lines stay where they were, whatever the model makes of the separators."""

import pytest

from dragoman import Hypothesis, System
from dragoman.commands import whole_documents
from dragoman.shared import described
from dragoman.shared.batches.separated import SeparatedText
from tests import small
from tests.small import GOLDEN


class Shouts(System):
    """Writes capitals, counts the sentences that it was given, and forgets the line ends of a text with a "j"."""

    def translate_batch(self, batch, search, *, forced=None):
        texts = [self.output.decoded(row.tolist()) for row in batch["source"].rows()]
        limits.add(search.rules.extra)
        shouted = ["\n".join(f"{line.upper()}{text.count(chr(10)) + 1}" for line in text.split("\n")) for text in texts]
        forgot = [text.replace("\n", " ") if "J" in text else text for text in shouted]
        return [[Hypothesis([], 0.0, {"translation": text}, cut="B" in text)] for text in forgot]


limits: set[int] = set()


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setattr(described, "PACKAGES", (*described.PACKAGES, __name__))
    tokenizer = small.tokenizer(["abcdefghij " * 3])
    fields = [SeparatedText(field=small.text(tokenizer, side), maximum=20) for side in ("source", "target")]
    small.system(tokenizer, cls=Shouts, inputs={"source": fields[0]}, output=fields[1]).save(tmp_path / "model")
    return tmp_path / "model"


def test_lines_stay_where_they_were(dragoman, model):
    """A part has two sentences, since each has some nine pieces and a separator."""
    text = "\nacd acd\nefg efg\nhi\n\n\nacd\nj j\nacd acd acd acd acd acd\n"
    code, output, messages = dragoman("translate", model, "--documents", text=text)
    lines = ["", "ACD ACD2", "EFG EFG2", "HI1", "", "", "ACD1", "J J1", "ACD ACD ACD ACD ACD ACD1"]
    assert code == 0 and output.splitlines() == lines
    assert "1 of 4 parts had more or fewer sentences in the output: translated by sentences" in messages
    assert limits == {250}, "what a search allows anyway is no less"


def test_a_document_is_divided_where_memory_ends_and_outputs_that_are_cut_are_named(dragoman, model, monkeypatch):
    monkeypatch.setattr(whole_documents, "CHUNK", 3)
    code, output, messages = dragoman("translate", model, "--documents", text="a\nc\nd\ne\nb\n\n")
    assert code == 0 and output.splitlines() == ["A3", "C3", "D3", "E2", "B2", ""]
    assert "line 4, line 5" in messages
    assert dragoman("translate", model, "--documents", text="") == (0, "", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--documents: this model was not trained on documents"),
        (["--n-best", "2"], "--documents prints a line for each line: without --n-best"),
        (["--format", "json"], "--documents prints a line for each line"),
    ],
)
def test_what_does_not_fit_documents_is_refused(dragoman, options, message):
    code, _, messages = dragoman("translate", GOLDEN, "--documents", *options, text="one")
    assert code == 2 and message in messages
