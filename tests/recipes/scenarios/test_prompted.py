"""Recipes that give prompts to an imported masked language model: what stays as it is, what is written, sizes."""

import pytest
import torch

from dragoman import Recipe, System
from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer
from dragoman.mt.sga import SemanticGenerator
from dragoman.shared.batches.fields import TextField
from dragoman.shared.nn.embeddings import TextEmbedding, TypeVectors
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.run.running import run_recipe
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.text.piece_model import train_sentencepiece
from tests.recipes.test_recipes import small
from tests.recipes.test_resumed import both_ways
from tests.recipes.test_waveform import QUICK
from tests.resume.conftest import differences

#: What a user of each recipe may say about languages.
RECIPES = {
    "text/sga": {"source_language": "de", "target_language": "en"},
    "ted/sga": {"languages": ["de"], "zero_shot": ["fr"]},
}


def masked_model(vocabulary, padding, layers, width, heads):
    """Return an encoder with XLM-R's layout and its head."""
    embedding = TextEmbedding(
        vocabulary=vocabulary,
        width=width,
        padding=padding,
        positions=LearnedPositions(width=width, length=120, offset=2),
        type_vector=TypeVectors(width=width, types=1),
        scaled=False,
        norm=True,
    )
    layer = Layer(width=width, heads=heads, feedforward=4 * width, activation="gelu", pre_norm=False)
    head = MaskedTokenHead(width=width, projection=TiedProjection(embedding=embedding, bias=True))
    encoder = Encoder(layer=layer, layers=layers)
    return EncoderModel(embeddings={"source": embedding}, encoder=encoder, heads={"masked_tokens": head})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, miniature):
    """A small random model with XLM-R's layout and symbols; its tokenizer has no symbol for a blank."""
    folder = tmp_path_factory.mktemp("encoder")
    texts = [path.read_text(encoding="utf-8") for path in sorted(miniature["text"].glob("train.*"))]
    pieces = train_sentencepiece("".join(texts).splitlines(), folder / "pieces.model", kind="unigram", size=400)
    symbols = {name: name for name in (*FIRST, "<mask>")}
    segmenter = SentencePieces(model=str(pieces))
    tokenizer = VocabularyTokenizer(segmenter=segmenter, added=["<mask>"], symbols=symbols)
    torch.manual_seed(1)
    model = masked_model(tokenizer.size, tokenizer.pad, layers=2, width=16, heads=2)
    field = TextField(column="source_text", tokenizer=tokenizer, prefix=["<s>"])
    EncoderSystem(model=model, inputs={"source": field}, source_languages=["en"]).save(folder / "model")
    return folder / "model"


def given(name, encoder, miniature):
    """Return the keys that make a recipe small, with what has to be filled in."""
    keys = (
        {"masked_folder": str(encoder), "data_folder": str(miniature[name.partition("/")[0]])} | RECIPES[name] | QUICK
    )
    sizes = small(Recipe.load(name, keys)) | RECIPES[name]
    return keys | sizes | {"prompts": 3, "grad_accumulation_factor": 2, "batch_tokens": 400}


@pytest.mark.recipes
@pytest.mark.parametrize("name", RECIPES)
def test_the_language_model_stays_as_it_was(name, encoder, tmp_path, monkeypatch, miniature):
    monkeypatch.chdir(tmp_path)
    output = run_recipe(Recipe.load(name, given(name, encoder, miniature)), command="a test").output
    found, imported = System.load(output / "average" / "model"), ReadingModel.load(encoder)
    known, theirs = found.model.reader.state_dict(), imported.model.state_dict()
    assert {*known} == {*theirs} and all(torch.equal(value, theirs[name]) for name, value in known.items())
    tokenizer = imported.inputs["source"].tokenizer
    assert found.output.tokenizer.fingerprint == found.inputs["source"].tokenizer.fingerprint == tokenizer.fingerprint
    assert found.inputs["source"].prefix == imported.inputs["source"].prefix
    assert found.model.blank == tokenizer.pad
    assert isinstance(found.translate(["a b c"], source_language="de")[0], str)
    if name == "ted/sga":
        assert found.source_languages == ["de", "fr"]
        results = (output / "results.jsonl").read_text(encoding="utf-8")
        assert '"fr"' in results or "fr-en" in results


@pytest.mark.recipes
def test_an_interrupted_run_ends_with_the_same_bits(encoder, tmp_path, monkeypatch, miniature):
    """Noise is drawn in the forward pass: its state is in the checkpoint."""
    monkeypatch.chdir(tmp_path)
    whole, resumed = both_ways("text/sga", given("text/sga", encoder, miniature), tmp_path, monkeypatch)
    assert differences(whole, resumed) == []


@pytest.mark.parametrize(
    ("layers", "width", "denoises", "millions"),
    [(12, 768, True, 8), (12, 768, False, 6), (24, 1024, True, 21), (24, 1024, False, 15)],
)
def test_as_many_parameters_learn_as_published(layers, width, denoises, millions):
    """Wu et al. 2023, table 1: XLM-R base and large, with denoising and without."""
    with torch.device("meta"):
        reader = masked_model(100, 1, layers, width, heads=16)
        model = SemanticGenerator(reader=reader, blank=1, mask=2, denoises=denoises)
    count = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert round(count / 1e6) == millions
