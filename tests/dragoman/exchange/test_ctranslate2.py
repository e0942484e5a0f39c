"""CTranslate2 itself is the oracle: what it makes of an exported model has to be what ours makes of the original."""

import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from dragoman import BeamSearch, DataError, GreedySearch, RepeatedNgrams, Rules, SamplingSearch, System, UsageError
from dragoman.cli.main import app
from dragoman.exchange.ctranslate2 import CTranslate2System, export
from dragoman.exchange.huggingface import hf_export
from dragoman.shared.batches.loader import collate
from dragoman.shared.batches.separated import SeparatedText
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.nn.embeddings import TypeVector
from dragoman.shared.nn.heads import CtcHead, OutputProjection, TiedProjection
from dragoman.shared.nn.layer import Layer, Variant
from dragoman.shared.nn.positions import LearnedPositions, RelativePositions
from dragoman.shared.nn.transformer import fresh
from dragoman.shared.nn.translator import Translator
from tests import small
from tests.golden.make import WORDS, train
from tests.small import GOLDEN, refuses

ctranslate2 = pytest.importorskip("ctranslate2")
pytestmark = pytest.mark.parity

#: Arguments of layers and embeddings, and whether the output projection is tied.
KINDS = {
    "post-norm": ({"pre_norm": False, "activation": "gelu"}, {}, True),
    "embedding norm": ({"activation": "gelu_tanh", "norm_epsilon": 1e-3}, {"norm": True, "norm_epsilon": 1e-3}, False),
    "unscaled": ({"activation": "swish"}, {"scaled": False}, False),
    "learned positions": ({}, {"positions": LearnedPositions(width=30, length=40)}, False),
    "no positions": ({}, {"positions": None}, True),
}


def build(kind: str, **changes) -> System:
    """Build an untrained translator with the golden one's tokenizer."""
    layers, embeddings, tied = KINDS[kind]
    tokenizer = System.from_description(GOLDEN).output.tokenizer
    torch.manual_seed(4)

    sizes = {"width": 30, "heads": 3, "feedforward": 50} | layers
    source, target = (fresh(small.embedding(tokenizer, **{"width": 30} | embeddings)) for _ in range(2))
    projection = TiedProjection(embedding=target, bias=True)
    if not tied:
        projection = OutputProjection(width=30, vocabulary=tokenizer.size, bias=True)
    model = small.translator(
        tokenizer,
        embeddings={"source": source},
        encoder=small.encoder(2, [2], **sizes),
        target_embedding=target,
        decoder=small.decoder(3, **sizes),
        projection=projection,
        heads={"ctc": CtcHead(tap=2, width=30, vocabulary=tokenizer.size, blank=tokenizer.blank)},
    )
    return small.system(tokenizer, model, **changes)


def sentences(count: int) -> list[str]:
    choose = random.Random(3)
    return [" ".join(choose.choices([*WORDS, "nine", "?"], k=choose.randint(1, 4))) for _ in range(count)]


@pytest.fixture(scope="module", params=KINDS)
def trained(request, tmp_path_factory) -> tuple[System, System]:
    """A translator of each kind that has learnt something, and what CTranslate2 opens of it."""
    folder = tmp_path_factory.mktemp("kinds")
    system = build(request.param)
    train(system, updates=120)
    system.eval().save(folder / "model")
    export(folder / "model", folder / "exported", positions=40)
    return system, CTranslate2System.open(folder / "exported")


@pytest.mark.parametrize("options", [None, {}, {"beam": 3, "length_penalty": 0.4}])
def test_outputs_and_scores_are_those_of_the_original(trained, options):
    texts, rules = sentences(100), Rules(maximum_length_extra=35)
    search = GreedySearch(rules=rules) if options is None else BeamSearch(**options, rules=rules)
    ours, theirs = ([found[0] for found in system.hypotheses(texts, search=search)] for system in trained)
    ended = [i for i, hypothesis in enumerate(ours) if len(hypothesis.tokens) < 35]  # at the limit, the rules differ
    assert len(ended) > 90 and len({ours[i].texts["translation"] for i in ended}) > 30
    assert [ours[i].tokens for i in ended] == [theirs[i].tokens for i in ended]
    power = 1.0 if options is None else search.length_penalty
    sums = [[found[i].score * len(found[i].tokens) ** power for i in ended] for found in (ours, theirs)]
    expected = torch.tensor(sums[0]) + shifts(trained[0], texts)[ended]
    torch.testing.assert_close(torch.tensor(sums[1]), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("separator", ["<sep>", "</s>"])
def test_a_translator_of_documents_writes_the_same_lines(tmp_path, separator):
    """Behind ``</s>`` an output goes on, and its language ends it (mBART's form)."""
    tokenizer = System.from_description(GOLDEN).output.tokenizer
    sides = (small.text(tokenizer, side) for side in ("source", "target"))
    source, target = (SeparatedText(field=field, separator=separator) for field in sides)
    system = build("no positions", inputs={"source": source}, output=target)
    train(system, updates=120, between="\n")
    system.eval().save(tmp_path / "model")
    texts = ["one\ntwo", "eight\nseven", "five", "six\nthree\nfour"]
    ours, theirs = (
        [(found[0].tokens, found[0].texts["translation"]) for found in each.hypotheses(texts)]
        for each in (System.load(tmp_path / "model"), CTranslate2System.open(tmp_path / "model"))
    )
    assert ours == theirs and len({text for _, text in ours}) > 2 and all("\n" in text for _, text in ours[:2])


@torch.no_grad()
def shifts(system: System, texts: list[str]) -> torch.Tensor:
    """Return what sums gain when the end symbol, forbidden at the start, is taken out before the softmax."""
    rows = [small.row("", text, target_language="de") for text in texts]
    batch = collate(rows, system.inputs, np.random.default_rng(0))
    state = system.model.start(system.model.encode(batch), None)
    logits, _ = system.model.step(system.prefix(["de"] * len(texts)).values[:, 0], state)
    return -torch.log1p(-logits.softmax(-1)[:, system.output.tokenizer.eos])


def test_a_model_folder_is_exported_on_the_spot():
    texts = ["one two", "", "eight seven", "five"]
    search = BeamSearch(rules=Rules(maximum_length_ratio=2.0, maximum_length_extra=8))
    ours = System.load(GOLDEN).hypotheses(texts, search=search)
    theirs = CTranslate2System.open(GOLDEN).hypotheses(texts, search=search)
    assert [found[0].tokens for found in ours] == [found[0].tokens for found in theirs]
    assert ours[1][0].texts == theirs[1][0].texts == {"translation": ""}


def test_the_files_serve_without_this_project(tmp_path):
    export(GOLDEN, tmp_path / "exported")
    symbols = System.load(GOLDEN)
    row = {"source_text": "one two", "source_language": "en"}
    source = [symbols.output.tokenizer.symbol(i) for i in symbols.inputs["source"](row, None).tolist()]
    result = ctranslate2.Translator(str(tmp_path / "exported")).translate_batch([source], target_prefix=[["<de>"]])
    assert "".join(result[0].hypotheses[0]).replace("▁", " ").strip() == "zwei eins"


def test_eight_bits_take_a_third_of_the_room(tmp_path):
    export(GOLDEN, tmp_path / "float", positions=20)
    export(GOLDEN, tmp_path / "int8", quantization="int8", positions=20)
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("float", "int8")]
    assert sizes[1] < sizes[0] / 2.5
    texts = CTranslate2System.open(tmp_path / "int8").hypotheses(["one two", "eight seven"])
    assert [found[0].texts["translation"] for found in texts] == ["zwei eins", "sieben acht"]


@pytest.mark.parametrize("quantization", ["float32", "int8"])
def test_its_own_converter_makes_the_same_of_what_transformers_reads(tmp_path, quantization):
    pytest.importorskip("transformers")
    golden = System.load(GOLDEN)
    parts = {name: part for name, part in golden.model.arguments.items() if name != "heads"}
    system = System(**(golden.arguments | {"model": Translator(**parts)}))
    system.save(tmp_path / "model")
    export(tmp_path / "model", tmp_path / "ours", quantization=quantization)
    hf_export.export(tmp_path / "model", tmp_path / "transformers")
    converter = ctranslate2.converters.TransformersConverter(str(tmp_path / "transformers"))
    converter.convert(str(tmp_path / "theirs"), quantization=quantization)
    texts = sentences(100)
    symbol, source = system.output.tokenizer.symbol, system.inputs["source"]
    rows = [{"source_text": text, "source_language": "en"} for text in texts]
    sources = [[symbol(i) for i in source(row, None).tolist()] for row in rows]
    found = {}
    for name, prefix in (("ours", [["<de>"]] * len(texts)), ("theirs", None)):  # the other one has it as its start
        translator = ctranslate2.Translator(str(tmp_path / name), compute_type=quantization)
        results = translator.translate_batch(sources, target_prefix=prefix, max_decoding_length=20, return_scores=True)
        found[name] = [(result.hypotheses[0], result.scores[0]) for result in results]
    ours, theirs = ([list(part) for part in zip(*found[name], strict=True)] for name in ("ours", "theirs"))
    assert ours[0] == theirs[0] and len({*map(tuple, ours[0])}) > 30
    assert ours[1] == pytest.approx(theirs[1], abs=1e-5)


class OtherLayer(Layer):
    """A layer of another class."""


def test_what_has_no_place_there_is_refused_by_name(tmp_path):
    refused = {
        "TypeVector|type vector": lambda s: setattr(s.model.target_embedding, "type_vector", TypeVector(width=30)),
        "Layers that are not the usual ones": lambda s: setattr(
            s.model.encoder.layers[0], "variant", Variant(gated=True)
        ),
        "Decoder of Layers that are not": lambda s: setattr(s.model.decoder, "relative", RelativePositions(heads=2)),
        "OtherLayer": lambda s: s.model.encoder.layers[0].__setattr__("__class__", OtherLayer),
        "memories source, second": lambda s: s.model.decoder.layers[0].memory_attention.update(
            {"second": s.model.decoder.layers[0].memory_attention["source"]}
        ),
        "final normalisation": lambda s: setattr(s.model.encoder, "norm", torch.nn.LayerNorm(30)),
    }
    from dragoman.exchange.ctranslate2 import specify

    for message, change in refused.items():
        system = build("post-norm")
        change(system)
        refuses(UsageError, message, specify, system, 40)
    refuses(UsageError, r"reads \['speech'\]", specify, build("no positions", inputs={"speech": SpeechField()}), 40)


def test_searches_without_an_equal_are_refused():
    opened = CTranslate2System.open(GOLDEN)
    rules = [Rules(bans=[RepeatedNgrams(size=2)]), Rules(minimum_length=4)]
    for search in (*(BeamSearch(rules=rule) for rule in rules), SamplingSearch()):
        refuses(UsageError, "use the native engine", opened.hypotheses, ["one two"], search=search)


def test_what_runs_elsewhere_cannot_be_saved(tmp_path):
    opened = CTranslate2System.open(GOLDEN)
    refuses(UsageError, "cannot be saved: copy the folder that it was opened from", opened.save, tmp_path / "model")
    refuses(UsageError, "has no files of its own", opened.check_files, GOLDEN)
    assert not (tmp_path / "model").exists()


def test_bad_places_and_numbers(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("mum")
    refuses(DataError, "something other than a CTranslate2 model", export, GOLDEN, tmp_path / "letters")
    assert (tmp_path / "letters" / "dear.txt").read_text() == "mum"
    refuses(UsageError, "int7", export, GOLDEN, tmp_path / "new", quantization="int7")
    assert not (tmp_path / "new").exists()
    refuses(DataError, "letters", CTranslate2System.open, tmp_path / "letters")
    export(GOLDEN, tmp_path / "cut")
    (tmp_path / "cut" / "model.bin").write_bytes((tmp_path / "cut" / "model.bin").read_bytes()[:1000])
    refuses(DataError, "cut", CTranslate2System.open, tmp_path / "cut")


def test_a_full_disk_names_the_export(tmp_path, file_size_limit):
    command = [sys.executable, "-m", "dragoman", "export", str(GOLDEN), "--out", str(tmp_path / "exported")]
    for limit in (10_000, 1000):  # of every file, as on a disk that has no more room
        with file_size_limit(limit):
            done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1 and str(tmp_path / "exported") in done.stderr
        assert not (tmp_path / "exported").exists()


def test_the_command_gives_the_same_lines_with_either_engine(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("one two\n\neight seven\nfive nine\n")
    printed = []
    export(GOLDEN, tmp_path / "exported")
    for folder, engine in ((GOLDEN, "native"), (GOLDEN, "ctranslate2"), (tmp_path / "exported", "ctranslate2")):
        app(["translate", str(folder), str(tmp_path / "text.txt"), "--engine", engine], standalone_mode=False)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] == printed[2] and printed[0].startswith("zwei eins\n\nsieben acht\n")
    for wrong in (["--engine", "other"], ["--engine", "ctranslate2", "--lm", str(GOLDEN)]):
        with pytest.raises(UsageError, match="engine"):
            app(["translate", str(GOLDEN), str(tmp_path / "text.txt"), *wrong], standalone_mode=False)
