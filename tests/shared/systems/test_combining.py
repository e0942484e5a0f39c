"""Systems made of systems, and the options that make them, on the little translator of tests/golden."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from typer.testing import CliRunner

from dragoman import BeamSearch, CtcGreedySearch, CtcPrefixSearch, DataError, GreedySearch, Manifest, System, UsageError
from dragoman.cli.main import app
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.searching import search_for
from dragoman.exchange.trimming import trim
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.rescoring import rescore
from dragoman.shared.generator import Encoding
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import OutputProjection, TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.transformer import Decoder
from dragoman.shared.nn.translator import LanguageModel
from dragoman.shared.padded import Padded
from dragoman.shared.phases import Evaluate
from dragoman.shared.systems.combining import ensembled, load_combined, through_ctc, with_ctc, with_language_model
from dragoman.shared.systems.ctc_system import CtcSystem
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small
from tests.small import refuses

TEXTS = ["one two", "eight seven", "five five", "six three"]
ANSWERS = ["zwei eins", "sieben acht", "fünf fünf", "drei sechs"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The golden system that says what its CTC head writes, a language model for it, and a manifest."""
    root = tmp_path_factory.mktemp("combined")
    golden = System.load(small.GOLDEN)
    tokenizer = golden.output.tokenizer
    System(**golden.arguments | {"ctc_output": small.text(tokenizer)}).eval().save(root / "model")
    torch.manual_seed(1)
    embedding = TextEmbedding(vocabulary=tokenizer.size, width=8, padding=tokenizer.pad)
    decoder = Decoder(layer=Layer(width=8, heads=2, feedforward=8), layers=1)
    lm = LanguageModel(target_embedding=embedding, decoder=decoder, projection=TiedProjection(embedding=embedding))
    small.system(tokenizer, lm, inputs={}, output=golden.output).eval().save(root / "lm")
    rows = [small.row(f"r{i}", text, answer) for i, (text, answer) in enumerate(zip(TEXTS, ANSWERS, strict=True))]
    Manifest.write(root / "test.arrow", rows)
    return root


class Casts(TorchDispatchMode):
    """Shapes of the tensors that are cast."""

    def __init__(self):
        super().__init__()
        self.shapes = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten._to_copy.default:
            self.shapes.add(tuple(args[0].shape))
        return function(*args, **kwargs or {})


def texts(found):
    return [one[0].texts for one in found]


@pytest.mark.parametrize("tied", [True, False])
def test_matrices_are_cast_once_for_autocast_and_to_the_same_values(tied, folders, tmp_path):
    system = System.load(folders / "lm")
    if not tied:
        width, vocabulary = system.model.decoder.width, system.output.tokenizer.size
        projection = OutputProjection(width=width, vocabulary=vocabulary)
        model = LanguageModel(**system.model.arguments | {"projection": projection})
        system = System(**system.arguments | {"model": model}).eval()
    system.save(tmp_path / "model")
    stored = load_combined(tmp_path / "model", autocast_dtype=torch.bfloat16)
    matrices = {tuple(part.weight.shape) for part in system.model.modules() if isinstance(part, Linear)}
    matrices.add(tuple(system.model.projection.weight.shape))
    tokens = torch.randint(4, system.output.tokenizer.size, (3, 5), generator=torch.Generator().manual_seed(0))
    found = []
    for model in (system.model, stored.model):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), Casts() as casts:
            found.append(model.log_probabilities(Padded(tokens, torch.tensor([5, 2, 4])), Encoding({}, {})))
        assert casts.shapes & matrices == (matrices if model is system.model else set())
    torch.testing.assert_close(*found, atol=0.02, rtol=0.02)
    assert torch.equal(stored.model.target_embedding.weight, system.model.target_embedding.weight)
    refuses(UsageError, "loaded for autocast", stored.save, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_an_ensemble_translates_and_is_one_folder(folders, tmp_path):
    plain = System.load(folders / "model").hypotheses(TEXTS)
    system = load_combined(folders / "model", ensemble=[folders / "model", small.GOLDEN])
    assert texts(system.hypotheses(TEXTS)) == texts(plain) == [{"translation": answer} for answer in ANSWERS]
    for one, other in zip(system.hypotheses(TEXTS), plain, strict=True):
        assert one[0].score == pytest.approx(other[0].score, abs=1e-4)
    system.save(tmp_path / "together")
    assert texts(System.load(tmp_path / "together").hypotheses(TEXTS)) == texts(plain)


def test_systems_that_do_not_fit_together_are_refused(folders, tmp_path):
    system, lm = System.load(folders / "model"), System.load(folders / "lm")
    tokenizer = SentencePieceTokenizer(model=str(small.GOLDEN / "tokenizer.model"), tags=["de", "en"])
    other = System(**system.arguments | {"output": small.text(tokenizer, "target")})
    said = "model 2 of the ensemble does not fit the first: its output has another tok"
    refuses(UsageError, said, ensembled, [system, other])
    other = System(**system.arguments | {"inputs": {"source": small.text(tokenizer)}})
    refuses(UsageError, "its input 'source' is another field", ensembled, [system, other])
    refuses(UsageError, "it reads nothing, not source", ensembled, [system, lm])
    refuses(UsageError, "cannot be averaged", lambda: ensembled([system, through_ctc(system)]))
    refuses(UsageError, "it reads an input", with_language_model, system, system, 0.3)
    french = System(**lm.arguments | {"target_languages": ["fr"]})
    refuses(UsageError, "knows fr, the system writes de", with_language_model, system, french, 0.3)
    refuses(UsageError, "no CTC head", lambda: through_ctc(System.load(small.GOLDEN)))


def test_a_language_model_is_no_translator_but_has_a_say(folders):
    lm = System.load(folders / "lm")
    refuses(UsageError, "language model", lm.translate, "one")
    system = load_combined(folders / "model", language_model=folders / "lm", lm_weight=0.2)
    plain, fused = System.load(folders / "model").hypotheses(TEXTS), system.hypotheses(TEXTS)
    assert all(one[0].score < other[0].score for one, other in zip(fused, plain, strict=True))


def test_only_languages_that_the_language_model_knows_are_written(folders):
    system = System.load(folders / "model")
    both = System(**system.arguments | {"target_languages": ["fr", "de"]})
    assert with_language_model(both, System.load(folders / "lm"), 0.2).target_languages == ["de"]


def test_a_ctc_head_alone(folders, tmp_path):
    system = load_combined(folders / "model", ctc=True)
    assert isinstance(system, CtcSystem) and through_ctc(system) is system
    greedy = system.hypotheses(TEXTS, search=CtcGreedySearch())
    assert texts(greedy) == [{"transcript": text} for text in TEXTS]
    assert texts(system.hypotheses(TEXTS)) == texts(greedy)  # prefix search by itself
    for size in (1, 3):
        assert texts(system.hypotheses(TEXTS[::-1], batch_size=size)) == texts(greedy)[::-1]
    refuses(UsageError, "GreedySearch needs a decoder", lambda: system.hypotheses(TEXTS, search=GreedySearch()))
    plain, said = System.load(folders / "model"), "CtcPrefixSearch does not search the outputs of a decoder"
    refuses(UsageError, said, plain.hypotheses, TEXTS, search=CtcPrefixSearch())
    system.save(tmp_path / "ctc")
    assert type(System.load(tmp_path / "ctc")) is CtcSystem
    english = System(**System.load(folders / "lm").arguments | {"target_languages": ["en"]})
    fused = with_language_model(system, english, 0.1)
    for one, other in zip(fused.hypotheses(TEXTS), system.hypotheses(TEXTS), strict=True):
        assert one[0].score < other[0].score


def test_decoder_and_ctc_head_judge_together(folders, tmp_path):
    """The head of this model writes another text than its decoder, so the score must fall with its share."""
    system = System.load(folders / "model")
    refuses(UsageError, "head writes 'source_text' and the decoder 'target_text'", with_ctc, system, 0.3)
    refuses(UsageError, "lacks a decoder or a CTC head", lambda: with_ctc(System.load(folders / "lm"), 0.3))
    refuses(UsageError, "at least 0 and below 1, not 1", with_ctc, system, 1.0)
    for wrong, words in (
        ({"ctc": True}, "a search through the head alone"),
        ({"ensemble": [small.GOLDEN]}, "an ensemble"),
    ):
        refuses(UsageError, f"does not go with {words}", load_combined, folders / "model", ctc_weight=0.3, **wrong)
    same = System(**system.arguments | {"ctc_output": system.output}).eval()
    same.save(tmp_path / "same")
    scores = []
    for weight in (0.0, 0.01, 0.02):
        found = load_combined(tmp_path / "same", ctc_weight=weight).hypotheses(TEXTS)
        assert texts(found) == [{"translation": answer} for answer in ANSWERS]
        scores.append([one[0].score for one in found])
    assert all(one > two > three for one, two, three in zip(*scores, strict=True))
    both = ("--ctc-weight", 0.02, "--lm", folders / "lm", "--lm-weight", 0.05)
    assert run("translate", tmp_path / "same", *both, text="one two\n") == "zwei eins\n"
    out = tmp_path / "results"
    run("evaluate", tmp_path / "same", folders / "test.arrow", "--ctc-weight", 0.02, "--metrics", "chrf", "--out", out)
    assert '"ctc_weight":0.02' in (out / "results.jsonl").read_text()
    table = tmp_path / "scores.tsv"
    (tmp_path / "outputs").write_text("".join(answer + "\n" for answer in ANSWERS))
    options = ("--outputs", tmp_path / "outputs", "--out", table, "--ctc-weight", 0.02)
    run("rescore", tmp_path / "same", folders / "test.arrow", *options)
    means = [float(line.split("\t")[3]) for line in table.read_text().splitlines()[1:]]
    assert means == pytest.approx(scores[2], abs=1e-4)


def test_a_joint_search_is_kept_trimmed_and_has_one_output(folders, tmp_path):
    """Tags stand behind the pieces: trimmed, they have other numbers."""
    system = System.load(folders / "model")
    others = {"transcript": small.text(system.output.tokenizer)}
    system = System(**system.arguments | {"ctc_output": system.output, "other_outputs": others}).eval()
    system.origin = ["another folder"]
    system.save(tmp_path / "plain")
    joint = with_ctc(system, 0.02)
    assert joint.origin == ["another folder"]
    refuses(UsageError, "can write translation, not 'transcript'", joint.for_task, writes="transcript")
    joint.save(tmp_path / "joint")
    for name in ("plain", "joint"):
        trim(tmp_path / name, [folders / "test.arrow"], tmp_path / f"trimmed {name}")
    found = System.load(tmp_path / "trimmed joint").hypotheses(TEXTS)
    expected = with_ctc(System.load(tmp_path / "trimmed plain"), 0.02).hypotheses(TEXTS)
    assert texts(found) == texts(expected) == [{"translation": answer} for answer in ANSWERS]
    assert [one[0].score for one in found] == pytest.approx([one[0].score for one in expected])


def test_a_phase_refuses_a_share_before_anything_is_trained():
    given = {"model": "m", "manifests": [], "search": BeamSearch(), "budget": Budget(tokens=10), "metrics": ["chrf"]}
    for wrong in ({"ctc_weight": 1.0}, {"ctc_weight": 0.3, "ctc": True}, {"ctc_weight": 0.3, "ensemble": ["m"]}):
        refuses(UsageError, "ctc_weight", Evaluate, **given, **wrong)


def run(*arguments, text=None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=text, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_translate_with_every_option(folders):
    model, text = folders / "model", "".join(line + "\n" for line in TEXTS)

    def lines(*options):
        return run("translate", model, *options, text=text).removesuffix("\n").split("\n")

    assert lines() == lines("--ensemble", small.GOLDEN, "--ensemble", model) == ANSWERS
    assert lines("--lm", folders / "lm", "--lm-weight", 0.05) == ANSWERS
    assert lines("--ctc") == lines("--ctc", "--beam", 1) == TEXTS
    assert lines("--no-repeat-ngram", 1)[2] != "fünf fünf"
    assert all(len(line) > 12 for line in lines("--minimum-length", 12))
    samples = lines("--sample", "--samples", 3, "--temperature", 1.5, "--top-p", 0.99)
    assert len(samples) == 12 and len(set(samples)) > 3 and len(samples[0].split("\t")) == 3
    assert samples == lines("--sample", "--samples", 3, "--temperature", 1.5, "--top-p", 0.99, "--batch-size", 1)
    assert lines("--sample", "--top-k", 1, "--seed", 7) == ANSWERS


def test_masks_from_files(folders, tmp_path):
    tokenizer = System.load(small.GOLDEN).output.tokenizer
    ids = {id for text in ("eins", "acht") for id in tokenizer.encode(text)}
    (tmp_path / "some").write_text("".join(tokenizer.symbol(id) + "\n" for id in ids), encoding="utf-8")
    system = System.load(folders / "model")
    for name, fits in (("allowed", ids.issuperset), ("forbidden", ids.isdisjoint)):
        search = search_for(SearchOptions(**{name: tmp_path / "some"}), tokenizer=tokenizer)
        found = system.hypotheses(TEXTS, search=search)
        assert all(len(one[0].tokens) > 1 and fits(one[0].tokens[:-1]) for one in found)
        printed = run("translate", folders / "model", f"--{name}", tmp_path / "some", text="one two\n")
        assert printed == found[0][0].texts["translation"] + "\n"
    (tmp_path / "wrong").write_text("eins\nnowhere\n", encoding="utf-8")
    wrong = ["translate", folders / "model", "--allowed", tmp_path / "wrong"]
    refuses(DataError, "wrong: line [12]: '.*' is no symbol", run, *wrong, text="one\n")


def test_evaluate_shares_the_options(folders, tmp_path):
    table = run("evaluate", folders / "model", folders / "test.arrow", "--ensemble", small.GOLDEN, "--metrics", "chrf")
    assert table.split("\t")[1:3] == ["chrf", "100.00"]
    out = tmp_path / "results"
    table = run("evaluate", folders / "model", folders / "test.arrow", "--ctc", "--metrics", "wer", "--out", out)
    assert table.split("\t")[1:3] == ["wer", "0.00"]
    row = (out / "results.jsonl").read_text()
    assert '"ctc":true' in row and "CtcPrefixSearch" in row


def test_rescore_gives_search_its_own_scores_back(folders, tmp_path):
    model = folders / "model"
    found = System.load(model).hypotheses(TEXTS, search=BeamSearch(beam=3, n_best=2))
    for rank in (0, 1):
        (tmp_path / "outputs").write_text("".join(h[rank].texts["translation"] + "\n" for h in found))
        table = tmp_path / "scores.tsv"
        printed = run("rescore", model, folders / "test.arrow", "--outputs", tmp_path / "outputs", "--out", table)
        rows = [line.split("\t") for line in table.read_text().splitlines()]
        assert rows[0] == ["id", "sum", "tokens", "mean", "text"] and len(rows) == 5
        compared = 0
        for row, hypotheses in zip(rows[1:], found, strict=True):
            h = hypotheses[rank]
            if int(row[2]) == len(h.tokens):  # the text has the same pieces again
                assert float(row[3]) == pytest.approx(h.score, abs=1e-4)
                assert float(row[1]) == pytest.approx(h.score * len(h.tokens), abs=1e-3)
                compared += 1
        assert compared >= (4 if rank == 0 else 1)
        total, tokens = sum(float(row[1]) for row in rows[1:]), sum(int(row[2]) for row in rows[1:])
        assert float(printed.split("\t")[2]) == pytest.approx(math.exp(-total / tokens), abs=0.01)
    refuses(UsageError, "no perplexity", run, "rescore", model, folders / "test.arrow", "--lm", folders / "lm")
    assert run("rescore", model, folders / "test.arrow", "--lm", folders / "lm", "--out", tmp_path / "both.tsv") == ""
    assert len((tmp_path / "both.tsv").read_text().splitlines()) == 5
    printed = run("rescore", folders / "lm", folders / "test.arrow")
    assert printed.split("\t")[1] == "perplexity" and float(printed.split("\t")[2]) > 50
    (tmp_path / "outputs").write_text("eins\n")
    few = ["rescore", model, folders / "test.arrow", "--outputs", tmp_path / "outputs"]
    refuses(DataError, "4 rows, but there are 1 outputs", run, *few)
    broken = System.load(model)
    broken.model.projection.bias = torch.nn.Parameter(torch.full((broken.output.tokenizer.size,), math.nan))
    manifest, budget = Manifest.open(folders / "test.arrow"), Budget(rows=2)
    options = {"texts": None, "budget": budget, "workspace": Workspace(output=tmp_path, seed=1)}
    refuses(DataError, "log-probabilities are not numbers for row", rescore, broken, manifest, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ctc": True, "length_penalty": 0.5}, "--length-penalty does not apply to decoding by CTC"),
        ({"sample": True, "beam": 3}, "--beam does not apply to sampling"),
        ({"top_k": 3}, "--top-k does not apply to beam search"),
    ],
)
def test_numbers_that_make_no_sense_are_usage_errors(options, message):
    with pytest.raises(UsageError, match=message):
        made = SearchOptions(**options)
        made.check()
        search_for(made)


def test_more_of_them():
    refuses(UsageError, "use --samples", lambda: search_for(SearchOptions(sample=True), n_best=2))
    refuses(UsageError, "--lm-weight needs --lm", lambda: ModelOptions(lm_weight=0.5).check())
    refuses(UsageError, "--ctc-weight must be at least 0 and below 1, not 1.5", ModelOptions(ctc_weight=1.5).check)
    refuses(UsageError, "above 0 and at most 10,000, not -1", ModelOptions(lm=Path("x"), lm_weight=-1.0).check)
    assert search_for(SearchOptions(beam=1)).arguments["rules"].bans == []
