"""XLM-T: the initialised translator against torch's own encoder and decoder, and against the library transformers."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman import Recipe, UsageError
from dragoman.exchange.importing import import_model
from dragoman.mt.xlmt import CrossFromSelf
from dragoman.runs.running import run_recipe
from dragoman.shared.batch import Batch
from dragoman.shared.evaluation.results import read
from dragoman.shared.nn.embeddings import TypeVectors
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.positions import LearnedPositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.saved_model import SavedModel
from dragoman.shared.text.tagged import TaggedTokenizer
from dragoman.shared.training.initialise import Initialise
from tests import small as parts
from tests.recipes.test_recipes import Vocabulary, small
from tests.small import disturbed, refuses, torch_layer

WIDTH, HEADS, FEEDFORWARD, LAYERS, LONGEST = 16, 2, 24, 4, 20
TABLE = "model.embeddings.source.tokens.weight"
NEW = ["model.decoder.layers.*.memory_attention", "model.decoder.layers.*.memory_attention_norm"]


def layer(**options):
    return parts.layer(WIDTH, feedforward=FEEDFORWARD, activation="gelu", **options)


def embedding(tokenizer, shared_with=None):
    options = {"type_vector": TypeVectors(width=WIDTH, types=1), "scaled": False, "norm": True}
    positions = LearnedPositions(width=WIDTH, length=LONGEST, offset=2)
    return parts.embedding(tokenizer, WIDTH, positions, shared_with=shared_with, **options)


@pytest.fixture(scope="module")
def pieces():
    """The tokenizer of the masked language model, which has no symbols of languages."""
    return parts.tokenizer(["abcdef", "fedcba"], [])


def masked_model(pieces, pre_norm):
    torch.manual_seed(3)
    source = embedding(pieces)
    model = EncoderModel(
        embeddings={"source": source},
        encoder=Encoder(layer=layer(pre_norm=pre_norm), layers=LAYERS),
        heads={"masked": MaskedTokenHead(width=WIDTH, projection=TiedProjection(embedding=source, bias=True))},
    )
    return disturbed(EncoderSystem(model=model, inputs={"source": parts.text(pieces, prefix=["<s>"])}))


def translator(pieces, pre_norm, layers=2, tags=("en", "de", "fr")):
    torch.manual_seed(4)
    tokenizer = TaggedTokenizer(tokenizer=pieces, tags=[*tags])
    source = embedding(tokenizer)
    model = parts.translator(
        tokenizer,
        embeddings={"source": source},
        encoder=Encoder(layer=layer(pre_norm=pre_norm), layers=LAYERS),
        target_embedding=embedding(tokenizer, source),
        decoder=Decoder(layer=layer(pre_norm=pre_norm, memories=["source"]), layers=layers),
    )
    inputs = {"source": parts.text(tokenizer, prefix=["<{target_language}>"])}
    options = {"inputs": inputs, "output": parts.text(tokenizer, "target", prefix=["<s>"])}
    return disturbed(parts.system(tokenizer, model, **options, source_languages=["de", "fr"], target_languages=["en"]))


def initialise(system, folder, layers=None):
    """Do what recipes/base/xlmt.yaml does."""
    encoder = {"model.embeddings.source": "model.embeddings.source", "model.encoder": "model.encoder"}
    decoder = {"model.decoder": "model.encoder", "model.target_embedding": "model.embeddings.source"}
    lines = Initialise(folder=str(folder), parts=encoder).apply(system)
    return lines + Initialise(folder=str(folder), parts=decoder, layers=layers, allow=NEW).apply(system)


def embedded(state, table, tokens):
    """Return the input of XLM-R's layers by hand: token, position counted from 2, type 0, norm."""
    name = "model.embeddings.source"
    x = table[tokens] + state[f"{name}.positions.weight"][2 : 2 + len(tokens)] + state[f"{name}.type_vector.weight"][0]
    return F.layer_norm(x, (WIDTH,), state[f"{name}.norm.weight"], state[f"{name}.norm.bias"])[None]


def torch_encoder(encoder):
    norm = encoder.norm if isinstance(encoder.norm, nn.LayerNorm) else None
    layers = nn.ModuleList(map(torch_layer, encoder.layers))
    theirs = nn.TransformerEncoder(layers[0], LAYERS, norm=norm, enable_nested_tensor=False)
    theirs.layers = layers
    return theirs


def test_encoder_and_decoder_are_torchs_with_layers_of_the_masked_model(pieces, tmp_path):
    """Attention to the encoder has the weights of self-attention, tokens the vectors of pre-training; tags are new."""
    below, system, numbers = masked_model(pieces, False), translator(pieces, False), [1, 3]
    below.save(tmp_path / "below")
    before = {name: tensor.clone() for name, tensor in system.state_dict().items()}
    lines = initialise(system, tmp_path / "below", numbers) + CrossFromSelf().apply(system)
    assert system.origin == lines and "but for 3 rows of further symbols" in lines[0] and "layers 1 3" in lines[2]
    assert lines[-1] == "model.decoder: attention to source begins as the self-attention of its layer"
    state = below.state_dict()
    encoder = torch_encoder(below.model.encoder)
    options = {"dropout": 0.0, "activation": "gelu", "batch_first": True}
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, HEADS, FEEDFORWARD, **options), len(numbers))
    for place, (number, own) in enumerate(zip(numbers, decoder.layers, strict=True)):
        known = encoder.layers[number].state_dict()
        crossed = {name.replace("self_", "multihead_"): value for name, value in known.items() if "attn" in name}
        there = f"model.decoder.layers.{place}.memory_attention_norm"
        norm = {f"norm2.{kind}": before[f"{there}.{kind}"] for kind in ("weight", "bias")}
        last = {name.replace("norm2", "norm3"): value for name, value in known.items() if name.startswith("norm2")}
        own.load_state_dict(known | crossed | norm | last)
    table = torch.cat([state[TABLE], before[TABLE][pieces.size :]])
    tag = system.output.tokenizer.id("<en>")
    source, target = torch.tensor([tag, 3, 5, 4, pieces.eos]), torch.tensor([pieces.bos, 4, 6, 5])
    memory = encoder(embedded(state, table, source))
    later = nn.Transformer.generate_square_subsequent_mask(len(target))
    states = decoder(embedded(state, table, target), memory, tgt_mask=later)
    encoding = system.model.encode(parts.batch(source=[source]))
    found = system.model.project(system.model.decode(parts.padded([target]), encoding))
    torch.testing.assert_close(encoding.memories["source"].values, memory, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found, states @ table.T, atol=1e-4, rtol=1e-4)


def test_without_a_memory_the_decoder_is_the_encoder_that_sees_what_is_before(pieces, tmp_path):
    """Normalised before sub-layers, a decoder whose attention to the encoder adds nothing is a causal encoder."""
    below, system = masked_model(pieces, True), translator(pieces, True, layers=LAYERS)
    below.save(tmp_path / "below")
    initialise(system, tmp_path / "below")
    CrossFromSelf().apply(system)
    with torch.no_grad():
        for one in system.model.decoder.layers:
            for parameter in one.memory_attention["source"].output.parameters():
                parameter.zero_()
    state, target = below.state_dict(), torch.tensor([pieces.bos, 4, 6, 5])
    later = nn.Transformer.generate_square_subsequent_mask(len(target))
    expected = torch_encoder(below.model.encoder)(embedded(state, state[TABLE], target), mask=later)
    found = system.model.decode(parts.padded([target]), system.model.encode(parts.batch(source=[[3, 4]])))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_without_a_decoder_attention_stays_random_and_the_report_says_so(pieces):
    system = translator(pieces, True)
    before = {name: tensor.clone() for name, tensor in system.state_dict().items()}
    [line] = CrossFromSelf(decoder=None).apply(system)
    assert line == "attention to the encoder begins with random parameters, no decoder is given"
    assert system.origin == [] and all(torch.equal(t, before[name]) for name, t in system.state_dict().items())


def test_decoders_that_cannot_begin_so_are_refused(pieces):
    system = translator(pieces, True)
    for name in ("model.encoder", "model.decoders"):
        refuses(UsageError, f"the system has no decoder '{name}'", CrossFromSelf(decoder=name).apply, system)
    system.model.decoder = Decoder(layer=layer(memories={"source": 12}), layers=1)
    message = r"attends to states of width 12 \(source\), where its own have 16"
    refuses(UsageError, message, CrossFromSelf().apply, system)
    system.model.decoder = Decoder(layer=layer(), layers=1)
    refuses(UsageError, r"model\.decoder attends to no memory", CrossFromSelf().apply, system)


DIRECTIONS = {
    "many": ({}, {"de-en", "fr-en", "ru-en", "tr-en"}),
    "one": ({"source_languages": "[en]", "target_languages": "!ref <many>"}, {"en-de", "en-fr", "en-ru", "en-tr"}),
    "both": (
        {"source_languages": "!ref <tags>", "target_languages": "!ref <tags>"},
        {"de-en", "fr-en", "ru-en", "tr-en", "en-de", "en-fr", "en-ru", "en-tr"},
    ),
}


@pytest.mark.recipes
def test_all_directions_begin_as_one_masked_model_of_all_languages(tmp_path, monkeypatch):
    """The masked model is pre-trained once, though its users translate in other directions."""
    monkeypatch.chdir(tmp_path)
    common = {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu", "learning_rate": 1e-12}
    common |= {"encoder_layers": 2, "decoder_layers": 2, "phases.xlmr.encoder_layers": 2}
    common |= {"optimizer.weight_decay": 0.0, "average": "last 1"}
    sizes = small(Recipe.load("almanac/xlmt", {})) | common
    for name, (keys, directions) in DIRECTIONS.items():
        changes = keys | {"output_folder": f"results/{name}"}
        changes |= {"cross_from_self": "model.decoder"} if name == "both" else {}
        output = run_recipe(Recipe.load("almanac/xlmt", sizes | changes), command="a test").output
        rows = read(output / "results.jsonl")
        found = {row["split"].partition("/")[0] for row in rows if row["metric"] == "bleu"}
        assert {one for one in found if "-" in one} == directions
        system = SavedModel.load(output / "average" / "model")
        [below] = [SavedModel.load(path) for path in tmp_path.glob("results/**/xlmr/1-debug/average/model")]
        own, theirs = system.state_dict(), below.state_dict()
        assert below.source_languages == ["de", "en", "fr", "ru", "tr"]
        assert own[TABLE].shape == theirs[TABLE].shape  # symbols of languages are there in pre-training
        compared = [TABLE]
        torch.testing.assert_close(own[TABLE], theirs[TABLE], atol=1e-6, rtol=0)
        for known in (known for known in theirs if known.startswith("model.encoder.")):
            for side in ("encoder", "decoder"):
                here = known.replace("model.encoder", f"model.{side}")
                torch.testing.assert_close(own[here], theirs[known], atol=1e-6, rtol=0)
                compared.append(here)
        assert {name for name in own if name not in compared and ".memory_attention" not in name} == set()
        for number in range(2):
            one = f"model.decoder.layers.{number}"
            crossed = own[f"{one}.memory_attention.source.queries.weight"]
            known = own[f"{one}.self_attention.queries_keys_values.weight"][:16]
            assert torch.allclose(crossed, known, atol=1e-6) == (name == "both")


def test_the_masked_model_reads_texts_of_all_languages_that_say_nothing_of_them():
    vocabulary = f"!new:{Vocabulary.__module__}.Vocabulary {{pieces: 9, tags: [en, de]}}"
    recipe = Recipe.load("almanac/xlmr", {"tokenizer": vocabulary})
    with torch.device("meta"):
        fit = recipe.plan["fit"].build()
    [stream] = fit.streams
    assert [path.parent.name for path in map(Path, stream.paths)] == ["de", "en", "fr", "ru", "tr"]
    field = fit.objective.system.inputs["source"]
    for code in ("en", "de"):
        ids = field({"source_text": "abc", "source_language": code}, None).tolist()
        assert ids == [field.tokenizer.bos, 0, 0, 0, field.tokenizer.eos]


@pytest.mark.parity
def test_it_is_the_encoder_decoder_that_transformers_makes_of_the_same_files(tmp_path):
    """Their decoder has the encoder's layers, and attention to it that is new, as here; all read <s> ... </s>."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "theirs"
    torch.manual_seed(5)
    rows = save_tiny(transformers, folder)
    import_model(folder, tmp_path / "below", source_languages=["en"])
    below = ReadingModel.load(tmp_path / "below")
    assert below.inputs["source"].tokenizer.size == rows
    torch.manual_seed(6)
    theirs = transformers.EncoderDecoderModel.from_encoder_decoder_pretrained(str(folder), str(folder)).eval()
    system = translator(below.inputs["source"].tokenizer, False, layers=LAYERS)
    initialise(system, tmp_path / "below")
    for own, other in zip(system.model.decoder.layers, theirs.decoder.roberta.encoder.layer, strict=True):
        cross, projections = own.memory_attention["source"], other.crossattention.self
        with torch.no_grad():
            for kind in ("weight", "bias"):
                getattr(projections.query, kind).copy_(getattr(cross.queries, kind))
                key, value = getattr(cross.keys_values, kind).chunk(2)
                getattr(projections.key, kind).copy_(key)
                getattr(projections.value, kind).copy_(value)
        other.crossattention.output.dense.load_state_dict(cross.output.state_dict())
        other.crossattention.output.LayerNorm.load_state_dict(own.memory_attention_norm.state_dict())
    source, target = parts.padded([[0, 7, 5, 2], [0, 6, 2]], padding=1), parts.padded([[0, 4, 6], [0, 5, 8]])
    memory = theirs.encoder(input_ids=source.values, attention_mask=source.mask.long()).last_hidden_state
    seen = {"encoder_hidden_states": memory, "encoder_attention_mask": source.mask.long()}
    expected = theirs.decoder.roberta(input_ids=target.values, **seen).last_hidden_state
    found = system.model.decode(target, system.model.encode(Batch({"source": source})))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    vectors = theirs.encoder.embeddings.word_embeddings.weight
    torch.testing.assert_close(system.model.project(found)[..., :rows], expected @ vectors.T, atol=1e-4, rtol=1e-4)


def save_tiny(transformers, folder):
    """Save a random XLM-R of the sizes here with a small tokenizer; return the number of its ids."""
    from tokenizers import Tokenizer, models

    rows = ["<s>", "<pad>", "</s>", "<unk>", *(f"\u2581{letter}" for letter in "abcdef"), "<mask>"]
    folder.mkdir()
    Tokenizer(models.Unigram([(row, -1.0) for row in rows], 3, False)).save(str(folder / "tokenizer.json"))
    config = transformers.XLMRobertaConfig(
        vocab_size=len(rows),
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        intermediate_size=FEEDFORWARD,
        num_hidden_layers=LAYERS,
        max_position_embeddings=LONGEST + 2,
        type_vocab_size=1,
        pad_token_id=1,
        layer_norm_eps=1e-5,
    )
    model = transformers.XLMRobertaForMaskedLM(config)
    disturbed(model)
    model.save_pretrained(folder)
    return len(rows)
