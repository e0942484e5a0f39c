"""Documents: texts with separators by hand and by sizes, parts, d-BLEU and s-BLEU by sacreBLEU, lines that are kept."""

import numpy as np
import pytest
import sacrebleu
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman import DataError, Hypothesis, Manifest, System, UsageError
from dragoman.mt.documents import EvaluateDocuments, JoinSentences
from dragoman.shared import described
from dragoman.shared.batch import Batch
from dragoman.shared.batches.separated import SeparatedText, spans
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.outputs import Outputs
from dragoman.shared.evaluation.results import read
from dragoman.shared.generator import Encoding
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.padded import Padded
from dragoman.shared.search import BeamSearch, GreedySearch
from dragoman.shared.systems.inputs import warn_of_cut
from dragoman.shared.text.normalise import Lowercase
from tests import small
from tests.small import refuses

LETTERS = "abcdefghij "


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer([LETTERS * 3, "ABCDEFGHIJ."])


def separated(tokenizer, side="source", maximum=512, separator="<sep>", **field):
    field = small.text(tokenizer, side, **field)
    return SeparatedText(field=field, separator=separator, maximum=maximum)


def ids(field, row):
    return field(row, np.random.default_rng(1)).tolist()


# -- texts ------------------------------------------------------------------------------------------------------------


def test_a_separator_stands_between_lines_and_none_is_typed(tokenizer):
    e, special = tokenizer.encode, tokenizer.id
    field = separated(tokenizer, normalizers=[Lowercase()])
    row = small.row(1, "Ab cd\n<sep>\n\ne")
    expected = [special("<en>"), *e("ab cd"), special("<sep>"), *e("<sep>"), *[special("<sep>")] * 2, *e("e")]
    assert ids(field, row) == [*expected, special("</s>")]
    assert field.decoded(ids(field, row)) == "ab cd\n<sep>\n\ne"


def test_as_published_sentences_end_and_the_language_ends_the_text(tokenizer):
    e, special = tokenizer.encode, tokenizer.id
    source = separated(tokenizer, prefix=[], suffix=["</s>", "<{language}>"], separator="</s>")
    target = separated(tokenizer, "target", separator="</s>")
    row = small.row(1, "ab\ncd", "ef\ngh")
    end, en, de = special("</s>"), special("<en>"), special("<de>")
    assert ids(source, row) == [*e("ab"), end, *e("cd"), end, en]
    assert ids(target, row) == [de, *e("ef"), end, *e("gh"), end, de]
    assert target.end(["de", "de"]) == de and separated(tokenizer).end(["de", "en"]) == end
    assert target.decoded(ids(target, row)[1:-1]) == "ef\ngh"
    refuses(UsageError, "outputs in de, en end in different symbols", target.end, ["de", "en", "de"])


@given(st.lists(st.one_of(st.none(), st.text(alphabet=LETTERS + "\n", max_size=12)), max_size=8))
def test_lengths_are_those_of_the_ids(tokenizer, texts):
    field = separated(tokenizer, normalizers=[Lowercase()])
    rows = [small.row(number, text) for number, text in enumerate(texts)]
    expected = [-1 if "source_text" not in row else len(ids(field, row)) for row in rows]
    assert field.lengths(rows).tolist() == expected
    assert [field.length(row) for row in rows if "source_text" in row] == [n for n in expected if n >= 0]


class Dictates:
    """A generator that writes the same tokens whatever it reads, with what is behind </s> among them."""

    def __init__(self, tokens, size):
        self.tokens, self.size = tokens, size

    def encode(self, batch):
        source = batch["source"]
        return Encoding({"source": Padded(source.values[..., None].float(), source.lengths)})

    def start(self, encoding, prefix):
        return Place(0)

    def step(self, tokens, state):
        logits = torch.full((len(tokens), self.size), -9.0)
        logits[:, self.tokens[min(state.place, len(self.tokens) - 1)]] = 9.0
        return logits, Place(state.place + 1)


class Place:
    def __init__(self, place):
        self.place = place

    def fork(self, beams):
        return self

    def reorder(self, index):
        return self


@pytest.mark.parametrize("search", [GreedySearch(), BeamSearch(beam=3)])
@pytest.mark.parametrize("separator", ["<sep>", "</s>"])
def test_the_search_goes_on_behind_a_separator_up_to_the_end(tokenizer, separator, search):
    target = separated(tokenizer, "target", separator=separator)
    row = small.row(1, "x", "ab cd\nef\ngh")
    model = Dictates(ids(target, row)[1:], tokenizer.size)
    system = small.system(tokenizer, output=target)
    batch = Batch({"source": small.padded([[5, 6]])}, languages={"source": ["en"], "target": ["de"]})
    [[best, *_]] = system.searched(model, batch, search)
    assert best.texts == {"translation": "ab cd\nef\ngh"} and not best.cut


@pytest.mark.parametrize("maximum", [512, 99])
def test_a_long_document_is_translated_whole_and_what_is_cut_is_said(tokenizer, maximum, caplog):
    """A part of 512 tokens may have 1000 in its output; one of a shorter limit, what a search allows anyway: 250."""
    target = separated(tokenizer, "target", maximum=maximum)
    lines = "\n".join(["ab"] * 90)
    model = Dictates(ids(target, small.row(1, "x", lines))[1:], tokenizer.size)
    system = small.system(tokenizer, output=target, inputs={"source": separated(tokenizer)})
    system.searched = lambda generator, *rest, **more: System.searched(system, model, *rest, **more)
    assert len(model.tokens) > 250
    assert system.translate(["x"])[0].split("\n") == (["ab"] * 90 if maximum == 512 else ["ab"] * 62 + ["a"])
    cut = "the str 'x': the output is cut off at the maximum length"
    assert (cut in caplog.text) == (maximum == 99)
    caplog.clear()
    warn_of_cut(dict(enumerate(["a", np.zeros(9), "c", "d"])))
    [record] = caplog.records
    assert record.message.startswith("the str 'a', inputs[1], the str 'c', ...: 4 outputs are cut off")


def test_a_model_folder_keeps_the_separator_and_the_limit(tokenizer, tmp_path):
    options = {"inputs": {"source": separated(tokenizer, maximum=99)}, "output": separated(tokenizer, "target")}
    small.system(tokenizer, **options).save(tmp_path)
    loaded = System.load(tmp_path)
    row = small.row(1, "ab\ncd", "e\nf")
    assert loaded.inputs["source"].maximum == 99
    assert ids(loaded.output, row) == ids(options["output"], row)


# -- parts ------------------------------------------------------------------------------------------------------------


def parts(tokenizer, rows, maximum, fields=("source", "target")):
    sides = [(separated(tokenizer, side, maximum), rows) for side in fields]
    return [[*span] for span in spans([row["document"] for row in rows], sides)]


@given(st.lists(st.tuples(st.booleans(), st.text("ab ", max_size=5), st.text("ab ", max_size=9)), max_size=12))
def test_parts_are_as_long_as_they_can_be(tokenizer, drawn):
    document, rows = 0, []
    for number, (begins, source, target) in enumerate(drawn):
        document += begins
        rows.append(small.row(number, source, target, document=document))
    fields = [separated(tokenizer, side) for side in ("source", "target")]

    def fit(numbers):
        texts = {f"{side}_text": "\n".join(rows[n][f"{side}_text"] for n in numbers) for side in ("source", "target")}
        return all(len(ids(field, rows[numbers[0]] | texts)) <= 14 for field in fields)

    expected = []
    for number, row in enumerate(rows):
        same = expected and rows[number - 1]["document"] == row["document"]
        if same and fit([*expected[-1], number]):
            expected[-1].append(number)
        else:
            expected.append([number])
    assert parts(tokenizer, rows, 14) == expected


def manifest(folder, rows, name="test"):
    rows = [small.row(f"{document}.{n}", *texts, document=document) for n, (document, *texts) in enumerate(rows)]
    return Manifest.write(folder / "en-de" / f"{name}.arrow", rows)


def join(tokenizer, folder, path, maximum=99, out="parts"):
    fields = {side: separated(tokenizer, side, maximum) for side in ("source", "target")}
    phase = JoinSentences(manifests=[str(path)], fields=fields, out=str(folder / out))
    small.run(phase, folder / "run", "join")
    return Manifest.open(folder / out / "en-de" / path.name)


def test_parts_hold_the_sentences_of_both_sides_in_step(tokenizer, tmp_path):
    rows = [("A", "a b", "c d"), ("A", "e\nf", ""), ("B", "g", "h")]
    made = [*join(tokenizer, tmp_path, manifest(tmp_path, rows).path)]
    texts = [(row["id"], row["document"], row["source_text"], row["target_text"]) for row in made]
    assert texts == [("A.0", "A", "a b\ne f", "c d\n"), ("B.2", "B", "g", "h")]
    assert {(row["source_language"], row["target_language"]) for row in made} == {("en", "de")}


def test_what_cannot_be_joined_is_named(tokenizer, tmp_path):
    nameless = manifest(tmp_path, [("A", "a", "b"), ("", "c", "d")]).path
    refuses(DataError, r"test.arrow: row .1 has no document", join, tokenizer, tmp_path, nameless)
    halves = manifest(tmp_path, [("A", "a", None), ("A", "c", "d")], "halves").path
    refuses(DataError, "halves.arrow: 1 rows have no target_text", join, tokenizer, tmp_path, halves)
    refuses(DataError, "would be written over", join, tokenizer, tmp_path, nameless, out=".")


def test_ten_megabytes_of_one_document_are_tokenised_once(tokenizer, monkeypatch):
    rows = [{"id": str(n), "source_text": LETTERS * 90, "source_language": "en"} for n in range(10_000)]
    field = separated(tokenizer, maximum=9999)
    each = (9999 - field.overhead + 1) // (field.length(rows[0]) - field.overhead + 1)
    counted, lengths = [], type(tokenizer).lengths
    monkeypatch.setattr(
        type(tokenizer), "lengths", lambda self, texts: counted.extend(map(len, texts)) or lengths(self, texts)
    )
    monkeypatch.setattr(type(tokenizer), "encode", None)
    found = spans(["page"] * len(rows), [(field, rows)])
    assert {len(part) for part in found[:-1]} == {each} and sum(map(len, found)) == len(counted) == 10_000
    assert sum(counted) == 9_900_000


# -- scores -----------------------------------------------------------------------------------------------------------


class Copies(System):
    """Writes its input as it is, but forgets the line ends of a part that begins with "j"."""

    def translate_batch(self, batch, search, *, forced=None):
        texts = [self.output.decoded(row.tolist()) for row in batch["source"].rows()]
        texts = [text.replace("\n", " ") if text.startswith("j") else text for text in texts]
        return [[Hypothesis([], 0.0, {"translation": text})] for text in texts]


PAGES = [
    ("A", "abc abd abe abf", "abc abd abe abf"),
    ("A", "abg abh", "abg abh abi"),
    ("B", "jab jac", "jab jac jad"),
    ("B", "jae jaf jag", "jae jaf jag"),
    ("C", "fab fac fad fae", "fab fac gad"),
]


@pytest.mark.parametrize("together", [True, False])
def test_sentences_and_documents_are_scored_as_sacrebleu_does(tokenizer, tmp_path, monkeypatch, caplog, together):
    monkeypatch.setattr(described, "PACKAGES", (*described.PACKAGES, __name__))
    fields = {"inputs": {"source": separated(tokenizer)}, "output": separated(tokenizer, "target")} if together else {}
    small.system(tokenizer, cls=Copies, **fields).save(tmp_path / "model")
    tests = manifest(tmp_path, PAGES)
    given = {"model": str(tmp_path / "model"), "manifests": [str(tests.path)], "metrics": ["bleu", "chrf"]}
    options = {"search": BeamSearch(), "budget": Budget(tokens=999), "texts": {"documents": ["bleu"]}}
    with caplog.at_level("INFO"):
        small.run(EvaluateDocuments(**given, **options), tmp_path / "run", "evaluate", recipe="mine")
    rows = {(row.get("text"), row["metric"]): row for row in read(tmp_path / "run" / "results.jsonl")}
    _, sources, targets = zip(*PAGES, strict=True)
    by_document = [[" ".join(side[:2]), " ".join(side[2:4]), side[4]] for side in (sources, targets)]
    expected = {(None, "bleu"): (sources, targets), ("documents", "bleu"): by_document}
    for key, (written, references) in expected.items():
        score = sacrebleu.corpus_bleu(written, [references]).score
        assert rows[key]["value"] == pytest.approx(score, abs=0.005) and rows[key]["lines"] == len(written)
    assert len(rows) == 3 and {row["corpus"] for row in rows.values()} == {tests.fingerprint[:12]}
    table = Outputs.read(tmp_path / "run" / "evaluate" / "en-de.test.documents.tsv")
    assert table.ids == ["A", "B", "C"] and table.hypotheses == by_document[0] and table.references == [by_document[1]]
    assert Outputs.read(tmp_path / "run" / "evaluate" / "en-de.test.tsv").hypotheses == [*sources]
    assert f"{int(together)} of {3 if together else 5} outputs have another number of sentences" in caplog.text


def test_scores_of_other_texts_are_refused(tokenizer, tmp_path):
    evaluate = EvaluateDocuments(model="", manifests=[], search=BeamSearch(), budget=Budget(tokens=9), metrics=["bleu"])
    place = Workspace(output=tmp_path, phase="evaluate", device="cpu")
    system = small.system(tokenizer)
    refuses(UsageError, "texts must have the metrics of 'documents'", evaluate.evaluated, system, None, place)
