"""Initialising from model folders: what is copied, and what must not be."""

import pytest
import torch

from dragoman import DataError, System, UsageError
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.phases.averaging import Average
from dragoman.shared.text.tagged import TaggedTokenizer
from dragoman.shared.training.initialise import Initialise
from tests import small
from tests.small import refuses


def test_only_what_is_named_is_copied(world, tmp_path):
    world.system(seed=1).save(tmp_path / "other")
    theirs, ours, before = world.system(seed=1), world.system(seed=2), world.system(seed=2)
    (line,) = Initialise(folder=str(tmp_path / "other"), parts={"model.encoder": "model.encoder"}).apply(ours)
    assert line.startswith("model.encoder: ") and "tensors from" in line
    for name, tensor in ours.state_dict().items():
        expected = theirs if name.startswith("model.encoder.") else before
        assert torch.equal(tensor, expected.state_dict()[name]), name


@pytest.mark.parametrize("part", ["model", "model.target_embedding"])
def test_vectors_of_other_symbols_are_refused(world, tmp_path, part):
    with_tokenizer(world, small.tokenizer(["abc", "cba", "a b c"]), seed=0).save(tmp_path / "other")
    apply = Initialise(folder=str(tmp_path / "other"), parts={part: part}).apply
    refuses(DataError, "another tokenizer", apply, world.system())


def with_tokenizer(world, tokenizer, seed=1):
    """Build the world's system with another tokenizer."""
    mine = world.tokenizer
    world.tokenizer = tokenizer
    try:
        return world.system(seed=seed)
    finally:
        world.tokenizer = mine


def test_vectors_of_further_symbols_stay_new(world, tmp_path):
    """The rows are those of the other tokenizer's symbols, in its order; on both sides, and in all else too."""
    theirs = world.system(seed=1)
    theirs.save(tmp_path / "other")
    longer = TaggedTokenizer(tokenizer=world.tokenizer, tags=["fr", "<x>"])
    ours, before = (with_tokenizer(world, longer, seed=2) for _ in range(2))
    [line] = Initialise(folder=str(tmp_path / "other"), parts={"model": "model"}).apply(ours)
    assert line.endswith("but for 4 rows of further symbols")  # two on each side
    known, rows = theirs.state_dict(), world.tokenizer.size
    for name, tensor in ours.state_dict().items():
        if name.endswith("tokens.weight"):
            expected = torch.cat([known[name], before.state_dict()[name][rows:]])
            assert len(tensor) == rows + 2 and not torch.equal(expected, before.state_dict()[name])
        else:
            expected = known[name]
        assert torch.equal(tensor, expected), name


def test_further_symbols_do_not_excuse_another_tokenizer_or_width(world, tmp_path):
    folder, parts = str(tmp_path / "other"), {"model.target_embedding": "model.target_embedding"}
    with_tokenizer(world, small.tokenizer(["abc", "cba", "a b c"])).save(folder)
    longer = with_tokenizer(world, TaggedTokenizer(tokenizer=world.tokenizer, tags=["fr"]))
    refuses(DataError, "another tokenizer", Initialise(folder=folder, parts=parts).apply, longer)
    with_tokenizer(world, TaggedTokenizer(tokenizer=world.tokenizer, tags=["fr"])).save(folder)
    # fewer symbols than there
    refuses(DataError, "another tokenizer", Initialise(folder=folder, parts=parts).apply, world.system())
    world.system().save(folder)
    wide, tokenizer = world.system(), TaggedTokenizer(tokenizer=world.tokenizer, tags=["fr"])
    wide.output = small.text(tokenizer, "target")
    wide.model.target_embedding = TextEmbedding(vocabulary=tokenizer.size, width=18, padding=tokenizer.pad)
    rows = world.tokenizer.size
    said = rf"tokens\.weight is \({rows}, 16\), not \({rows + 1}, 18\)"
    refuses(DataError, said, Initialise(folder=folder, parts=parts).apply, wide)


def test_without_a_folder_the_parts_stay_random_and_the_report_says_so(world):
    system, before = world.system(), world.system()
    lines = Initialise(folder=None, parts={"model.encoder": "model.encoder"}).apply(system)
    assert lines == ["model.encoder: begins with random parameters, no folder is given"]
    assert system.origin == []
    assert all(torch.equal(tensor, before.state_dict()[name]) for name, tensor in system.state_dict().items())
    nothing = {"parts": {"model.nothing": "x"}}
    refuses(UsageError, r"no parameters below 'model\.nothing'", Initialise(folder=None, **nothing).apply, system)


def test_what_is_missing_is_named(world, tmp_path):
    world.system().save(tmp_path / "other")
    for parts, error, said in (
        ({"model.encoder": "model.lost"}, DataError, r"model\.lost\..* is missing"),
        ({"model.nothing": "x"}, UsageError, r"no parameters below 'model\.nothing'"),
    ):
        refuses(error, said, Initialise(folder=str(tmp_path / "other"), parts=parts).apply, world.system())


@pytest.fixture
def encoder(world, tmp_path):
    """Save an encoder of five layers, which nothing else stands beside, with the world's tokenizer."""
    torch.manual_seed(9)
    field = small.text(world.tokenizer)
    model = small.encoder_model(world.tokenizer, layers=5, embedded={"positions": None}, dropout=0.1)
    options = {"inputs": {"source": field}, "output": field, "target_languages": ["en"]}
    system = small.system(world.tokenizer, model, **options)
    system.save(tmp_path / "encoder")
    return tmp_path / "encoder", system.state_dict()


def deep(world, layers: int) -> System:
    """Build the world's system with more layers."""
    system = world.system(seed=2)
    system.model.encoder = Encoder(layer=Layer(width=16, heads=2, feedforward=32), layers=layers)
    system.model.decoder = Decoder(layer=Layer(width=16, heads=2, feedforward=32, memories=["source"]), layers=layers)
    return system


@pytest.mark.parametrize(
    ("layers", "chosen"), [(None, [0, 1]), ([0, 1], [0, 1]), ([-2, -1], [3, 4]), ([0, 2], [0, 2]), ([4, 4], [4, 4])]
)
def test_an_encoder_initialises_encoder_and_decoder_by_chosen_layers(world, encoder, layers, chosen):
    folder, theirs = encoder
    ours = deep(world, 2)
    before = {name: tensor.clone() for name, tensor in ours.state_dict().items()}
    parts = {
        "model.encoder": "model.encoder",
        "model.decoder": "model.encoder",
        "model.embeddings.source.tokens": "model.embeddings.source.tokens",
        "model.target_embedding.tokens": "model.embeddings.source.tokens",
    }
    new = ["model.decoder.layers.*.memory_attention"]
    report = Initialise(folder=str(folder), parts=parts, allow=new, layers=layers).apply(ours)
    for name, tensor in ours.state_dict().items():
        if ".memory_attention" in name:
            assert torch.equal(tensor, before[name]), name
            continue
        there = name.replace("decoder", "encoder").replace("target_embedding", "embeddings.source")
        for number, chosen_number in enumerate(chosen):
            if f".layers.{number}." in name:
                there = name.replace("decoder", "encoder").replace(f".layers.{number}.", f".layers.{chosen_number}.")
        assert torch.equal(tensor, theirs[there]), name
    assert ours.origin == report and len(report) == 4
    assert report[1].startswith("model.decoder: 26 of 42 tensors from model.encoder of ")


def test_where_parameters_came_from_is_kept_in_the_model_folder(world, encoder, tmp_path):
    ours = deep(world, 1)
    report = Initialise(folder=str(encoder[0]), parts={"model.encoder": "model.encoder"}, layers=[-1]).apply(ours)
    ours.save(tmp_path / "ours")
    again = System.load(tmp_path / "ours")
    assert again.origin == report and report[0].endswith("encoder, layers -1")
    again.save(tmp_path / "again")
    assert (tmp_path / "again" / "config.json").read_bytes() == (tmp_path / "ours" / "config.json").read_bytes()


def test_the_model_that_training_leaves_says_it_too_even_after_an_interruption(world, encoder, tmp_path):
    common = {"output": tmp_path / "run", "device": "cpu", "noprogressbar": True, "workers": 0}
    parts = {"model.encoder": "model.encoder"}
    for updates in (4, 8):
        initialise = Initialise(folder=str(encoder[0]), parts=parts, layers=[-1])
        world.fit(initialise=[initialise], updates=updates).run(Workspace(phase="fit", **common))
    Average(fit=str(tmp_path / "run" / "fit"), checkpoints="last 1").run(Workspace(phase="average", **common))
    (line,) = System.load(tmp_path / "run" / "average" / "model").origin
    assert line == f"model.encoder: 14 of 14 tensors from model.encoder of {encoder[0]}, layers -1"


def test_layers_that_are_not_there_are_refused(world, encoder):
    missing = r"model\.encoder\.layers\.0\.memory_attention\.source.* is missing \(16 in all\)"
    for part, layers, depth, error, said in (
        ("model.encoder", [5], 1, UsageError, "5 layers at model.encoder.layers, but no layer 5"),
        ("model.encoder", [0], 2, UsageError, "layers names 1, but this system has a layer 1"),
        ("model.decoder", None, 2, DataError, missing),
    ):
        initialise = Initialise(folder=str(encoder[0]), parts={part: "model.encoder"}, layers=layers)
        refuses(error, said, initialise.apply, deep(world, depth))


def test_vectors_for_the_source_are_checked_too(world, encoder):
    ours = world.system()
    ours.inputs["source"] = small.text(small.tokenizer(["abc", "cba", "a b c"]))
    part = {"model.embeddings.source": "model.embeddings.source"}
    refuses(DataError, "another tokenizer", Initialise(folder=str(encoder[0]), parts=part).apply, ours)
