"""Recipes that begin with imported folders, run for two updates on a miniature of their corpus."""

import re
from pathlib import Path

import pytest
import torch

from dragoman import Manifest, Recipe, System
from dragoman.exchange.huggingface.whisper_times import TimestampSystem
from dragoman.exchange.importing import import_model
from dragoman.runs.running import run_recipe
from dragoman.shared.described import describe
from dragoman.shared.evaluation.results import read
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.text.subtitles import Cue, srt
from tests.recipes.installed import RECIPES
from tests.recipes.test_resumed import TRIED, check_interrupted
from tests.recipes.test_waveform import QUICK

FIXTURES = Path(__file__).parents[2] / "parity"
LORA = "!new:shared.training.tuning.LoRA {targets: .*queries_keys_values, rank: 2, alpha: 4, learn: .*decoder.*norm.*}"
#: Recipes that restore switched words with a model that is given.
RESTORING = [name for name, recipe in RECIPES.items() if "restore" in recipe.phases]
RESTORING = [name for name in RESTORING if "model_folder" in RECIPES[name].placeholders]


@pytest.fixture
def translator(tmp_path):
    """Import a model that fairseq has trained."""
    folder = tmp_path / "translator"
    import_model(FIXTURES / "fairseq" / "trained", folder, source_languages=["en"], target_languages=["de"])
    return folder


def run(name, folder, data, *, translates=True, arguments=(), **overrides):
    """Run a recipe in debug mode, with arguments of the command line before the overrides; return its model folder."""
    overrides |= {"data_folder": str(data), "manifest_folder": str(folder / "manifests")}
    overrides = {"source_language": "en", "target_language": "de"} | overrides
    overrides = {key: value for key, value in overrides.items() if value is not None}
    overrides |= {"results_folder": str(folder / "results")}
    overrides |= QUICK | {"learning_rate": 0.001, "warmup": 1, "validation.limit": 2}
    overrides |= {"beam": 2, "rules.maximum_length_extra": 10} if translates else {}
    if arguments:
        overrides = [*arguments, *(text for key, value in overrides.items() for text in (f"--{key}", str(value)))]
    return run_recipe(Recipe.load(name, overrides), command="a test").output / "average" / "model"


def changed(before, after):
    """Return the names of the parameters that have other values."""
    one, other = before.state_dict(), after.state_dict()
    assert one.keys() == other.keys()
    return {name for name, tensor in one.items() if not torch.equal(tensor, other[name])}


@pytest.mark.recipes
@pytest.mark.parametrize(
    ("library", "optimizer", "learning"),
    [
        ("torch", "optimizer.weight_decay=0.0", r".*"),
        ("bitsandbytes", "optimizer=!new:shared.training.optimizer.Adam8bit {}", r".*"),
        ("peft", f"optimizer.tuning={LORA}", r".*queries_keys_values\.weight|.*decoder.*norm.*"),
    ],
)
def test_an_imported_translator_learns(library, optimizer, learning, translator, miniature, tmp_path):
    pytest.importorskip(library)
    key, _, value = optimizer.partition("=")
    model = run("text/finetune", tmp_path, miniature["text"], model_folder=str(translator), **{key: value})
    before, after = System.load(translator), System.load(model)
    names = {name for name, _ in before.named_parameters()}
    assert changed(before, after) == {name for name in names if re.fullmatch(learning, name)}
    assert after.model.decoder.layers[-1].dropout == 0.3
    assert after.translate("one two") is not None
    assert any(line == f"all parameters from {translator}" for line in after.origin)


@pytest.mark.recipes
def test_a_denoiser_becomes_a_translator(miniature, tmp_path):
    """Its source texts were its target texts too; a translator's come from the other column."""
    sizes = {"width": 16, "heads": 2, "feedforward": 32, "encoder_layers": 1, "decoder_layers": 1, "pieces": 400}
    denoiser = run("text/mbart", tmp_path / "one", miniature["text"], translates=False, **sizes)
    model = run("text/finetune", tmp_path / "two", miniature["text"], model_folder=str(denoiser))
    before, after = System.load(denoiser), System.load(model)
    assert changed(before, after) == {name for name, _ in before.named_parameters()}
    row = {"source_text": "Hello.", "source_language": "en", "target_text": "Hallo.", "target_language": "de"}
    tokenizer, (source, target) = after.output.tokenizer, (after.inputs["source"], after.output)
    shown = [[tokenizer.symbol(id) for id in field(row, None).tolist()] for field in (source, target)]
    assert shown[0][-2:] == ["</s>", "<en>"] and (shown[1][0], shown[1][-1]) == ("<de>", "</s>")
    assert tokenizer.decode(target(row, None).tolist()) == "Hallo."


@pytest.mark.recipes
def test_a_denoiser_becomes_a_translator_with_texts_that_one_of_the_other_direction_translated(miniature, tmp_path):
    sizes = {"width": 16, "heads": 2, "feedforward": 32, "encoder_layers": 1, "decoder_layers": 1, "pieces": 400}
    denoiser = run("text/mbart", tmp_path / "one", miniature["text"], translates=False, **sizes)
    texts = {"texts_folder": str(miniature["text"]), "model_folder": str(denoiser)}
    texts |= {"quality.maximum_dropped": 1.0, "quality.maximum_ratio": 1000.0, "phases.reverse.warmup": 2}
    texts |= {"back_search": "!new:shared.search.sampling.SamplingSearch {rules: !ref <rules>}"}
    model = run("text/finetune_back_translation", tmp_path / "two", miniature["text"], **texts)
    [turned] = tmp_path.glob("two/results/finetune_reverse/*")
    after, reverse = System.load(model), System.load(turned / "average" / "model")
    assert {row["split"] for row in read(turned / "results.jsonl")} == {"de-en/test"}
    for system in (after, reverse):
        assert changed(System.load(denoiser), system) == {name for name, _ in system.named_parameters()}
    [made] = model.parents[1].glob("generate/*/*.arrow")
    rows = [Manifest.open(made)[number] for number in range(len(Manifest.open(made)))]
    german = (miniature["text"] / "train.de").read_text(encoding="utf-8").splitlines()
    assert rows and all(row["source_text"] in german and row["target_text"] for row in rows)  # read turned
    assert {(row["source_language"], row["target_language"]) for row in rows} == {("de", "en")}
    log = (model.parents[1] / "log.txt").read_text(encoding="utf-8")
    assert f"stream 'made': {len(rows)} rows" in log


@pytest.mark.recipes
def test_an_imported_encoder_learns_below_an_imported_translator(translator, miniature, tmp_path):
    encoder = tmp_path / "encoder"
    import_model(FIXTURES / "fairseq_speech" / "waveform_base", encoder)
    folders = {"speech_folder": str(encoder), "text_folder": str(translator)}
    model = run("own/st_finetune", tmp_path, miniature["own"], batch_seconds=8.0, grad_accumulation_factor=1, **folders)
    system, below, above = System.load(model), ReadingModel.load(encoder), System.load(translator)
    stayed = {
        "model.embeddings.speech.frontend.embedding.convolutions.": (below, "model.embeddings.speech.convolutions."),
        "model.embeddings.speech.frontend.encoder.layers.0.inner.": (below, "model.encoder.layers.0.inner."),
        "model.decoder.layers.0.self_attention.": (above, "model.decoder.layers.0.self_attention."),
        "model.decoder.layers.0.inner.": (above, "model.decoder.layers.0.inner."),
    }
    learned = {
        "model.embeddings.speech.frontend.encoder.layers.0.self_attention.": (
            below,
            "model.encoder.layers.0.self_attention.",
        ),
        "model.decoder.layers.0.memory_attention.": (above, "model.decoder.layers.0.memory_attention."),
    }
    states = system.state_dict()
    for parts, same in ((stayed, True), (learned, False)):
        for here, (origin, there) in parts.items():
            names = [name for name in states if name.startswith(here)]
            assert names
            for name in names:
                assert torch.equal(states[name], origin.state_dict()[there + name[len(here) :]]) == same, name


@pytest.mark.recipes
def test_an_encoder_of_filterbanks_learns_below_an_imported_translator(translator, miniature, tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 22}
    transformers.Wav2Vec2BertModel(transformers.Wav2Vec2BertConfig(**sizes)).save_pretrained(tmp_path / "theirs")
    encoder = tmp_path / "encoder"
    import_model(tmp_path / "theirs", encoder)
    folders = {"speech_folder": str(encoder), "text_folder": str(translator)}
    recipe = {"batch_seconds": 8.0, "grad_accumulation_factor": 1} | folders
    changes = "{model.encoder.recompute: !ref <recompute>, model.encoder.layer_drop: 0.0}"
    arguments = ["--speech_changes", "null", "--speech_changes", changes]
    model = run("own/st_finetune", tmp_path, miniature["own"], arguments=arguments, **recipe)
    after, before = System.load(model).state_dict(), ReadingModel.load(encoder).state_dict()
    place = "model.embeddings.speech.frontend."
    stayed = {"encoder.layers.0.first.inner.weight": True, "encoder.layers.1.self_attention.distance_keys": False}
    for name, same in stayed.items():
        assert torch.equal(after[place + name], before[f"model.{name}"]) == same, name
    norm = "subsampler.norm.weight"
    assert not torch.equal(after[f"{place}embedding.{norm}"], before[f"model.embeddings.speech.{norm}"])


@pytest.mark.recipes
@pytest.mark.parametrize(
    ("writes", "optimizer", "learning"),
    [
        ("translation", "optimizer.weight_decay=0.0", ".*"),
        ("transcript", f"optimizer.tuning={LORA}", r".*queries_keys_values\.weight|.*decoder.*norm.*"),
    ],
)
def test_an_imported_translator_of_speech_learns(writes, optimizer, learning, miniature, tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    from tests.parity.test_huggingface_whisper import saved

    saved("small", tmp_path / "theirs", max_source_positions=1500, max_target_positions=448)
    folder = tmp_path / "imported"
    import_model(tmp_path / "theirs", folder)
    key, _, value = optimizer.partition("=")
    given = {"model_folder": str(folder), "writes": writes, "batch_rows": 2, key: value}
    given |= {"source_language": "de", "target_language": "en"}
    model = run("own/speech_finetune", tmp_path, miniature["own"], **given)
    before, after = System.load(folder), System.load(model)
    assert after.output_name == writes and {*after.other_outputs} == {"translation", "transcript"} - {writes}
    assert after.start_symbols == 4 and describe(after.bans) == describe(before.bans) != []
    # The zeros beside the biases of queries and values stand for those of keys, and nothing moves them but rounding.
    names = {name for name, _ in before.named_parameters()}
    assert changed(before, after) == {name for name in names if re.fullmatch(learning, name)}


@pytest.mark.recipes
def test_an_imported_whisper_learns_the_times_of_segments(miniature, tmp_path, dragoman):
    """Rows of a recording are packed into windows; subtitles have times of the model's own."""
    pytest.importorskip("transformers")
    from tests.parity.test_huggingface_whisper import saved

    times = [f"<|{0.02 * number:.2f}|>" for number in range(1501)]
    saved("small", tmp_path / "theirs", times=times, max_source_positions=1500, max_target_positions=448)
    import_model(tmp_path / "theirs", tmp_path / "imported")
    given = {"model_folder": str(tmp_path / "imported"), "batch_rows": 2, "without_times": 0.3, "arm": "times"}
    model = run("own/speech_finetune", tmp_path, miniature["own"], source_language="de", target_language="en", **given)
    after = System.load(model)
    assert isinstance(after, TimestampSystem) and after.start_symbols == 3
    windows = Manifest.open(model.parents[1] / "windows" / "manifests" / "train.arrow")
    rows = Manifest.open(tmp_path / "manifests" / "train.arrow")
    timed = [window for window in windows if window["segments"]]
    assert 0 < len(timed) < len(windows) <= len(rows)
    written = after.output(timed[0], None).tolist()
    assert written[3] == after.output.time(0.0) and after.output.segments(written)[0][1] is not None
    sound = str(rows[0]["audio"])
    asked = ["--from", "de", "--format", "srt", "--keep-silence", "--beam", "1", "--device", "cpu"]
    code, blocks, messages = dragoman("translate", model, sound, *asked)
    assert code == 0, messages
    [segments] = after.timed([sound], source_language="de", keep_silence=True, beam=1)
    assert blocks == srt([Cue(one.start, one.end, one.texts["translation"]) for one in segments])
    assert len({one.start for one in segments}) > 1


def denoiser(name, text, folder):
    """Pre-train a small denoiser that knows the languages of a recipe; return its folder and these."""
    sizes = {"width": 16, "heads": 2, "feedforward": 32, "encoder_layers": 1, "decoder_layers": 1, "pieces": 400}
    recipe, codes = RECIPES[name], {"source_language": "en", "target_language": "de"}
    codes |= {key: recipe.value(key) for key in codes if key not in recipe.placeholders}
    tags = {"tags": sorted({"de", "en", *codes.values()}), "languages": ["de", "en"]}
    tags |= dict.fromkeys(("source_language", "target_language"))
    return run("text/mbart", folder, text, translates=False, **sizes, **tags), codes


@pytest.mark.recipes
@pytest.mark.parametrize("name", RESTORING)
def test_an_imported_translator_restores_switched_words_before_it_is_tuned(name, miniature, tmp_path):
    folder, codes = denoiser(name, miniature["text"], tmp_path / "one")
    model = run(name, tmp_path / "two", miniature[name.split("/")[0]], model_folder=str(folder), **codes)
    before, after = System.load(folder), System.load(model)
    restored = System.load(model.parents[1] / "restored" / "model")
    names = {name for name, _ in before.named_parameters()}
    assert changed(before, restored) == changed(restored, after) == names
    assert any("restored" in line for line in after.origin)


@pytest.mark.recipes
@pytest.mark.parametrize("name", [name for name in RESTORING if name.split("/")[0] not in TRIED])
def test_restoring_and_tuning_end_with_the_same_bits_after_an_interruption(name, miniature, tmp_path, monkeypatch):
    folder, codes = denoiser(name, miniature["text"], tmp_path / "one")
    keys = {"data_folder": str(miniature[name.split("/")[0]]), "manifest_folder": "manifests"}
    keys |= {"model_folder": str(folder), "beam": 2, "rules.maximum_length_extra": 10, "validation.limit": 2}
    check_interrupted(name, QUICK | codes | keys, tmp_path, monkeypatch)
