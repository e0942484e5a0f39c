"""The examples in the guides work."""

import configparser
import inspect
import json
import pydoc
import re
import shlex
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from hyperpyyaml import load_hyperpyyaml
from typer.main import get_command

import dragoman
from dragoman import Recipe, System
from dragoman.cli.main import app
from dragoman.exchange.importing import import_model
from dragoman.shared.batch import Batch
from dragoman.shared.described import build, describe
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.transformer import Decoder
from dragoman.shared.padded import Padded
from tests import small

ROOT = Path(__file__).parent.parent


def test_the_recipe_with_two_streams(tmp_path):
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    block, _ = re.findall(r"```yaml\n(base: .*?)```", text, re.DOTALL)
    path = tmp_path / "joint.yaml"
    path.write_text("# Joint\n" + block.replace("recipes/almanac", str(ROOT / "recipes/almanac")), encoding="utf-8")
    recipe = Recipe.load(path)
    recipe.check()
    (fit,) = recipe.plan["fit"].plain.values()
    streams = [arguments for stream in fit["streams"] for arguments in stream.values()]
    assert [(stream["name"], stream.get("weight", 1)) for stream in streams] == [("speech", 1), ("text", 3)]


def test_prepared_manifests_reach_a_run():
    """The whole recipe accepts the commands, not only the command line."""
    text = "".join((ROOT / f"docs/{page}.md").read_text(encoding="utf-8") for page in ("data", "from_espnet"))
    text = text.replace("\\\n", " ")
    commands = re.findall(r"^dragoman run (\S+) (.*--phases\.prepare null.*)$", text, re.MULTILINE)
    trained_on = []
    for name, options in commands:
        recipe = Recipe.load(name, shlex.split(options))
        recipe.check()
        assert recipe.placeholders == [] and recipe.phases[0] == "tokenizer"
        trained_on.append(recipe.value("train"))
    assert trained_on == [
        ["manifests/nemo/train.arrow"],
        ["manifests/europarl_st/en-de/train.arrow"],
        ["manifests/europarl_st/en-de/train.arrow", "manifests/s2t/train_st.arrow"],
        ["s3://corpora/own/train.arrow"],
        ["manifests/kaldi/en-de/train.arrow"],
    ]


def test_noise_of_ones_own(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(class Drop.*?)```", text, re.DOTALL)
    _, block = re.findall(r"```yaml\n(base: .*?)```", text, re.DOTALL)
    (tmp_path / "my_noise.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "noisy.yaml"
    path.write_text("# Noisy\n" + block.replace("recipes/almanac", str(ROOT / "recipes/almanac")), encoding="utf-8")
    Recipe.load(path).check()
    import my_noise

    kept = my_noise.Drop(share=0.5)([[n] for n in range(1000)], np.random.default_rng(0))
    assert kept == sorted(kept) and 400 < len(kept) < 600


@pytest.mark.parametrize("layers", ["[0, 1]", "[1, 0]", "[-1, -1]"])
def test_parts_of_a_model(layers, tmp_path):
    """An imported encoder begins a translator's encoder, and by chosen layers its decoder."""
    options = {"pieces": "words", "source_languages": ["en", "de"]}
    import_model(ROOT / "tests/parity/fairseq/masked_tokens", tmp_path / "xlmr", **options)
    text = (ROOT / "docs" / "from_fairseq.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"\n## Parts of a model\n.*?```yaml\n(.*?)```", text, re.DOTALL)
    block = block.replace("[0, 2, 4, 6, 8, 10]", layers).replace("folder: xlmr", f"folder: {tmp_path / 'xlmr'}")
    steps = load_hyperpyyaml(block)["phases"]["fit"]["initialise"]
    theirs = System.load(tmp_path / "xlmr")
    torch.manual_seed(7)
    source, target = (build(describe(theirs.model.embeddings["source"])) for _ in range(2))
    layer = build(describe(theirs.model.encoder.arguments["layer"]))
    parts = {"embeddings": {"source": source}, "encoder": build(describe(theirs.model.encoder))}
    parts["decoder"] = Decoder(layer=Layer(**layer.arguments | {"memories": ["source"]}), layers=2)
    model, field = small.translator(None, target_embedding=target, **parts), theirs.inputs["source"]
    ours = small.system(field.tokenizer, model, inputs={"source": field}, output=field).eval()
    before = {name: tensor.clone() for name, tensor in ours.state_dict().items()}
    report = [line for step in steps for line in step.apply(ours)]
    batch = Batch({"source": Padded.from_sequences([torch.tensor([0, 5, 9, 2]), torch.tensor([0, 7, 2])])})
    found, expected = (system.model.encode(batch).memories["source"] for system in (ours, theirs))
    for one, other in zip(found.rows(), expected.rows(), strict=True):
        torch.testing.assert_close(one, other)
    known = theirs.state_dict()
    for name, tensor in ours.model.decoder.state_dict().items():
        if "memory_attention" in name:
            assert torch.equal(tensor, before[f"model.decoder.{name}"]), name
        elif name.startswith("layers."):
            _, number, rest = name.split(".", 2)
            chosen = json.loads(layers)[int(number)] % 2
            assert torch.equal(tensor, known[f"model.encoder.layers.{chosen}.{rest}"]), name
    assert ours.origin == report and len(report) == 3 and report[2].endswith(f"layers {layers[1:-1].replace(',', '')}")


def test_the_python_of_the_readme_translates(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    golden = ROOT / "tests/golden/model"
    code, replaced = re.subn(r'load\("results/[^"]*"', f"load({str(golden)!r}, device='cpu'", code)
    assert replaced == 1
    exec(code, {})
    best = System.load(golden).translate(["Good morning.", "Where is the station?"])
    assert capsys.readouterr().out == f"{best}\n"


def test_the_python_of_the_page_on_search_translates():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/search.md").read_text(encoding="utf-8"), re.DOTALL)
    loaded = rf'found = \1"{ROOT}/tests/golden/model"\2'
    code, replaced = re.subn(r'(dragoman\.load\()"model"(.*)$', loaded, code, flags=re.M)
    assert replaced == 1
    names: dict[str, object] = {}
    exec(code, names)
    assert isinstance(names["found"], str) and names["found"]


@pytest.mark.parametrize("page", ["from_huggingface", "from_fairseq"])
def test_the_python_that_imports_models_is_that_of_the_package(page, monkeypatch, capsys):
    """Files of others are not here: what a page calls is looked at, not done."""
    (code, *_) = re.findall(r"```python\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    called = []

    def report(*given, **named):
        inspect.signature(import_model).bind(*given, **named)
        called.append(given)
        return SimpleNamespace(lines=lambda: ["all is there"])

    monkeypatch.setattr(dragoman, "import_model", report)
    found = lambda folder: SimpleNamespace(translate=lambda text, **_: f"{folder}: {text}")  # noqa: E731
    monkeypatch.setattr(dragoman, "load", found)
    exec(code, {})
    assert len(called) == 1
    assert capsys.readouterr().out in ("", "all is there\nmodels/mbart50: Good morning.\n")


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Ends of dotted names that are files, or groups of entry points.
NOT_CODE = ("py", "yaml", "md", "packages", "corpora")
ROOMS = "benchmarks|docs|dragoman|mt|recipes|shared|st|tests"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf-8")
    named = {*re.findall(rf"(?<![\w./-])(?:{ROOMS})/[\w./*-]*\.(?:py|yaml|md|json|jsonl|png)\b", text)}
    named |= {*re.findall(rf"`((?:{ROOMS})/[\w./*-]*)`", text)}
    linked = {link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link}
    outside = {"recipes/confident.yaml", "tests/test_confidence.py"} if page.name == "adding_a_method.md" else set()
    missing = {name for name in named - outside if not list(ROOT.glob(name))}
    missing |= {link for link in linked if not (page.parent / link).exists()}
    assert sorted(missing) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_imports_exists(page):
    text = page.read_text(encoding="utf-8")
    named = {*re.findall(r"(?<!/)\b(?:dragoman|mt|shared|st)(?:\.\w+)+(?![\w/*-])", text)}
    for module, names in re.findall(r"^ *from ((?:dragoman|mt|shared|st)[\w.]*) import ([\w, ]+)", text, re.MULTILINE):
        named |= {f"{module}.{name}" for name in names.split(", ")}
    named -= {name for name in named if name.rpartition(".")[2] in NOT_CODE}
    assert sorted(name for name in named if pydoc.locate(name) is None) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_recipes_and_commands_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf-8")
    recipes, commands = {name for name, _ in Recipe.list()}, {*get_command(app).commands}
    folders = "|".join({name.partition("/")[0] for name in recipes})
    named = {*re.findall(rf"`((?:{folders})/\w+)`", text)}
    named |= {*re.findall(rf"dragoman (?:run|batch-size|seeds|show) ((?:{folders})/\w+)", text)}
    called = {*re.findall(r"^(?:\$ )?dragoman ([a-z][a-z-]+)", text, re.MULTILINE)}
    called |= {*re.findall(r"`dragoman ([a-z][a-z-]+)", text)}
    assert sorted(named - recipes) == [] and sorted(called - commands) == []


#: Recipes that the reader writes. RESULTS.md has commands of the time when results were measured: it is left out.
OWN = ("recipes/confident.yaml",)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "RESULTS.md"], ids=lambda page: page.name)
def test_commands_on_a_page_have_the_options_and_keys_that_there_are(page):
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    commands = "\n".join(block for language, block in blocks if language in ("", "bash"))
    lines = re.findall(r"\bdragoman ([a-z][^;\n]*)", re.sub("#.*", "", commands))
    wrong = []
    for line in lines:
        if "..." in line or "[--" in line or line.count("'") % 2:  # shortened, a synopsis, or more lines than one
            continue
        name, *words = takewhile(lambda word: word not in ("|", ">", "<"), shlex.split(line))
        try:
            context = get_command(app).commands[name].make_context(name, words)
            recipe = context.params.get("recipe", context.params.get("target"))
            if name in ("run", "show", "batch-size") and recipe not in OWN:
                arm = context.params.get("arm")
                Recipe.load(recipe, [*([f"--arm={arm}"] if arm else []), *context.args])
        except Exception as error:  # of the command line, of the recipe, or of reading either
            wrong.append(f"dragoman {line}: {type(error).__name__}: {error}")
    assert wrong == []


def test_the_page_of_systems_names_every_recipe():
    told = {*re.findall(r"`([\w-]+/[\w-]+)`", (ROOT / "docs/systems.md").read_text(encoding="utf-8"))}
    assert sorted({name for name, _ in Recipe.list()} - told) == []


def test_the_examples_of_services_start_the_server_and_wait_for_its_requests():
    compose = yaml.safe_load((ROOT / "docs/compose.yaml").read_text(encoding="utf-8"))
    [service] = compose["services"].values()
    [entry] = re.findall(r"^ENTRYPOINT (.*)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.read(ROOT / "docs/dragoman-server.service", encoding="utf-8")
    systemd = unit["Service"]
    starts = [
        (json.loads(entry) + service["command"], service["stop_grace_period"], f"/run/secrets/{service['secrets'][0]}"),
        (shlex.split(systemd["ExecStart"]), systemd["TimeoutStopSec"], "${CREDENTIALS_DIRECTORY}/keys"),
    ]
    for (program, name, *words), grace, keys in starts:
        given = get_command(app).commands[name].make_context(name, words).params
        assert Path(program).name == "dragoman" and str(given["keys"]) == keys
        assert int(grace.removesuffix("s")) > given["deadline"]
    models = service["command"][0].partition("=")[2]
    assert any(models.startswith(volume.split(":")[1] + "/") for volume in service["volumes"])
    assert (ROOT / "docs" / service["build"] / "Dockerfile").is_file() and set(service["secrets"]) == {
        *compose["secrets"]
    }
