"""Case, punctuation and events: said by every corpus, and the same for the tokenizer's training and the model's."""

import itertools
import re
from pathlib import Path

import pytest
import sentencepiece

from dragoman import Manifest, Recipe, UsageError
from dragoman.shared.batches.fields import TextField
from dragoman.shared.described import build, describe
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.pieces import TrainTokenizer, changed_texts
from dragoman.shared.text.normalise import Policy
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small

RECIPES = Path(__file__).parents[3] / "recipes"
TEXT = "(Applause) It's DONE, isn't it? [Music]"


@pytest.mark.parametrize(
    ("events", "punctuation", "lowercase", "expected"),
    [
        (True, True, False, TEXT),
        (True, True, True, TEXT.lower()),
        (True, False, False, "Applause It's DONE isn't it Music"),
        (True, False, True, "applause it's done isn't it music"),
        (False, True, False, "It's DONE, isn't it?"),
        (False, True, True, "it's done, isn't it?"),
        (False, False, False, "It's DONE isn't it"),
        (False, False, True, "it's done isn't it"),
    ],
)
def test_policy(events, punctuation, lowercase, expected):
    """Events go first: without their brackets or capitals they would be words."""
    policy = Policy(events=events, punctuation=punctuation, lowercase=lowercase)
    assert policy(TEXT, "en") == expected
    assert build(describe(policy))(TEXT, "en") == expected


def test_nothing_of_a_policy_is_a_default():
    for left in itertools.combinations(("events", "punctuation", "lowercase"), 2):
        with pytest.raises(TypeError):
            Policy(**dict.fromkeys(left, True))


#: Recipes with policies of their own: those of their corpus or paper.
OTHERS = ["librispeech/asr", "mustc/curriculum"]


def test_policies_are_said_once_and_are_those_of_nearly_every_recipe():
    text = (RECIPES / "base" / "run.yaml").read_text(encoding="utf-8")
    for side in ("source", "target"):
        said = text.split(f"\n{side}_policy:")[1].split("_policy:")[0]
        assert all(f"    {key}: " in said for key in ("events", "punctuation", "lowercase"))
    texts = {path: path.read_text(encoding="utf-8") for path in RECIPES.rglob("*.yaml") if path.parent.name != "base"}
    own = [path for path, text in texts.items() if re.search("^(source|target)_policy:", text, re.M)]
    assert sorted(str(path.relative_to(RECIPES).with_suffix("")) for path in own) == OTHERS


@pytest.mark.parametrize(
    ("recipe", "column"), [("mustc/asr", "source_text"), ("mustc/st", "target_text"), ("mustc/mt", "target_text")]
)
def test_the_output_has_the_policy_of_its_column(recipe, column):
    """Transcripts in lower case do not make translations lower case, and the other way round."""
    for side in ("source", "target"):
        loaded = Recipe.load(recipe, {"data_folder": "x", f"{side}_policy.lowercase": True})
        loaded.check()
        ((_, policy),) = loaded.value("output_normalizers")[0].items()
        assert loaded.value("output_column") == column
        assert policy["lowercase"] is (column == f"{side}_text")


def test_recipes_that_are_run_first_have_the_same_policies():
    for name in ("mustc/st", "covost2/st", "almanac/st_from_asr_mt", "almanac/lm"):
        loaded = Recipe.load(name, {"data_folder": "x", "source_policy.lowercase": True, "target_policy.events": False})
        phases = [phase for phase in ("asr", "mt") if phase in loaded.phases]
        for inner in (loaded.plan[phase].build().recipe for phase in phases):
            assert inner.value("source_policy") == {"events": True, "punctuation": True, "lowercase": True}
            assert inner.value("target_policy") == {"events": False, "punctuation": True, "lowercase": False}
        assert phases


@pytest.fixture
def trained(tmp_path):
    rows = [small.row(i, f"(Laughter) Hello THERE, number {i}!", f"(Lachen) Hallo DU, Nummer {i}!") for i in range(40)]
    manifest = Manifest.write(tmp_path / "train.arrow", [*rows, small.row("e", "(Applause)")])
    normalizers = {
        "source_text": [Policy(events=False, punctuation=False, lowercase=True)],
        "target_text": [Policy(events=True, punctuation=True, lowercase=False)],
    }
    given = {"size": 300, "normalisation": "identity", "normalizers": normalizers}
    phase = TrainTokenizer(manifests=[str(manifest.path)], columns=["source_text", "target_text"], **given)
    return manifest, normalizers, phase


def test_the_tokenizer_learns_from_the_text_that_the_model_sees(trained, tmp_path, monkeypatch):
    """Each column as its field gives it; a text of which nothing stays is no text."""
    manifest, normalizers, phase = trained
    workspace = Workspace(output=tmp_path, phase="tokenizer", device="cpu")
    workspace.folder.mkdir()
    phase.run(workspace)
    model = str(tmp_path / "tokenizer" / "tokenizer.model")
    tokenizer = SentencePieceTokenizer(model=model, tags=["en", "de"])
    seen = []
    for column, changes in normalizers.items():
        field = TextField(column=column, tokenizer=tokenizer, normalizers=changes)
        seen += [text for row in manifest if row[column] and (text := field.text(row))]
    assert [text for _, text in changed_texts(phase.manifests, phase.columns, phase.normalizers)] == seen
    assert seen[0] == "hello there number 0" and seen[-1] == "(Lachen) Hallo DU, Nummer 39!" and len(seen) == 80
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    pieces = {processor.id_to_piece(i) for i in range(processor.get_piece_size())}
    assert not any("Laughter" in piece or "THERE" in piece for piece in pieces)


@pytest.mark.parametrize(("rule", "expected"), [("identity", "ＡＢ…"), ("nfc", "ＡＢ…"), ("nmt_nfkc", "AB...")])
def test_the_normalisation_of_sentencepiece_can_be_chosen(tmp_path, rule, expected):
    rows = [small.row(i, f"ＡＢ… {i}") for i in range(9)]
    path = Manifest.write(tmp_path / "train.arrow", rows).path
    workspace = Workspace(output=tmp_path, phase="tokenizer", device="cpu")
    workspace.folder.mkdir()
    TrainTokenizer(manifests=[str(path)], columns=["source_text"], size=290, normalisation=rule).run(workspace)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer" / "tokenizer.model"))
    assert processor.decode(processor.encode("ＡＢ…")) == expected


def test_a_column_without_a_field_is_refused():
    given = {"manifests": ["x"], "columns": ["source_text"], "normalizers": {"speaker": []}}
    small.refuses(UsageError, "speaker", TrainTokenizer, **given)
