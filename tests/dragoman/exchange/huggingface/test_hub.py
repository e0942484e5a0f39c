"""Push and pull against a Hub on this machine, by huggingface_hub itself; cards as its ModelCard reads them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import DataError, System, UsageError
from dragoman.exchange.card import card, write_card
from dragoman.exchange.huggingface.hub import fetch, pull, push
from dragoman.exchange.importing import import_model
from dragoman.shared.evaluation.results import record
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.translator import EncoderModel, LanguageModel
from tests import small
from tests.dragoman.exchange.local_hub import identity, serving
from tests.small import refuses

library = pytest.importorskip("huggingface_hub")
constants = pytest.importorskip("huggingface_hub.constants")

OURS = {"config.json", "model.safetensors", "tokenizer.model", "README.md"}


@pytest.fixture
def hub():
    with serving() as served:
        yield served


@pytest.fixture
def api(hub, tmp_path, monkeypatch):
    """Return a client with the right to write, and a cache of its own."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return library.HfApi(endpoint=hub.address, token=hub.token)


@pytest.fixture
def model(tmp_path):
    """Return a model folder beside whose files others lie."""
    shutil.copytree(small.GOLDEN, tmp_path / "model")
    (tmp_path / "model" / "notes.txt").write_text("mine")
    return tmp_path / "model"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def theirs(**files: bytes) -> dict[str, bytes]:
    return {"config.json": b'{"model_type": "marian"}', "vocab.json": b"{}"} | files


# -- ours ------------------------------------------------------------------------------------------------------------


def test_what_is_pushed_is_pulled(hub, api, model, tmp_path):
    address = push(model, "me/golden", message="First", api=api)
    (commit,) = hub.repositories["me/golden"]
    assert set(commit) == OURS and address.endswith(identity(commit))
    assert pull("me/golden", tmp_path / "out", api=api) == identity(commit)
    assert contents(tmp_path / "out") == {name: (model / name).read_bytes() for name in OURS}
    assert System.load(tmp_path / "out").translate("seven") == System.load(small.GOLDEN).translate("seven")


def test_of_a_model_folder_nothing_else_is_fetched(hub, api, model, tmp_path):
    push(model, "me/golden", api=api)
    (commit,) = hub.repositories["me/golden"]
    commit |= {"modeling.py": b"print(1)", "more.safetensors": b"", "other.txt": b"", "pytorch_model.bin": b"x"}
    pull("me/golden", tmp_path / "out", api=api)
    assert set(contents(tmp_path / "out")) == OURS == set(hub.asked)


def test_notes_of_the_average_go_with_it(hub, api, model, tmp_path):
    (model / "averaged.json").write_text('{"recipe": "almanac/mt", "seed": 3}')
    push(model, "me/golden", api=api)
    pull("me/golden", tmp_path / "out", api=api)
    assert contents(tmp_path / "out")["averaged.json"] == (model / "averaged.json").read_bytes()


def test_older_commits_are_there_too(hub, api, model, tmp_path):
    push(model, "me/golden", api=api)
    write_card(model, license="cc-by-4.0")
    push(model, "me/golden", api=api)
    first, second = hub.repositories["me/golden"]
    pull("me/golden", tmp_path / "out", api=api)
    assert contents(tmp_path / "out")["README.md"] == second["README.md"]
    pull("me/golden", tmp_path / "out", revision=identity(first), api=api)
    assert contents(tmp_path / "out")["README.md"] == first["README.md"] != second["README.md"]


def test_what_was_pulled_once_needs_no_network(hub, api, model, tmp_path, monkeypatch):
    push(model, "me/golden", api=api)
    commit = pull("me/golden", tmp_path / "out", api=api)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert pull("me/golden", tmp_path / "again", api=api) == commit
    assert pull("me/golden", tmp_path / "again", revision=commit, api=api) == commit
    assert contents(tmp_path / "again") == contents(tmp_path / "out")
    with pytest.raises(DataError, match="me/other: never downloaded completely, and the Hub cannot be reached"):
        pull("me/other", tmp_path / "other", api=api)
    refuses(DataError, "HF_HUB_OFFLINE is set", push, model, "me/golden", api=api)


def test_private(hub, api, model, tmp_path):
    push(model, "me/secret", private=True, api=api)
    assert hub.private == {"me/secret"}
    nobody = library.HfApi(endpoint=hub.address, token=False)
    with pytest.raises(DataError, match="me/secret: there is no such model on the Hub, or it is private"):
        pull("me/secret", tmp_path / "out", api=nobody)
    assert pull("me/secret", tmp_path / "out", api=api)
    push(model, "me/open", api=api)
    (public,) = hub.repositories["me/open"]
    refuses(DataError, "me/open: exists already and is public", push, model, "me/open", private=True, api=api)
    assert hub.repositories["me/open"] == [public]


def test_errors_are_one_line(hub, api, model, tmp_path):
    cases = [
        ("log in with 'hf auth login'", library.HfApi(endpoint=hub.address, token=False)),
        ("the token must have the right to write", library.HfApi(endpoint=hub.address, token="hf_other")),
        ("refuses, or cannot be reached", library.HfApi(endpoint="http://127.0.0.1:9", token="hf_other")),
    ]
    for message, client in cases:
        with pytest.raises(DataError, match=message) as raised:
            push(model, "me/golden", api=client)
        assert "\n" not in str(raised.value) and "hf_other" not in str(raised.value)
    assert not hub.repositories
    refuses(DataError, "me/nothing: there is no such model", pull, "me/nothing", tmp_path / "out", api=api)
    push(model, "me/golden", api=api)
    with pytest.raises(DataError, match="me/golden: the model on the Hub has no such revision"):
        pull("me/golden", tmp_path / "out", revision="v2", api=api)
    with pytest.raises(DataError, match="a b: ") as raised:
        pull("a b", tmp_path / "out", api=api)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_whole_is_neither_pushed_nor_pulled(hub, api, model, tmp_path):
    push(model, "me/golden", api=api)
    (commit,) = hub.repositories["me/golden"]
    hub.repositories["me/golden"].append({name: data for name, data in commit.items() if name != "tokenizer.model"})
    with pytest.raises(DataError, match="me/golden: is a model folder, but lacks tokenizer.model"):
        pull("me/golden", tmp_path / "out", api=api)
    hub.repositories["me/golden"].append(commit | {"model.safetensors": commit["model.safetensors"][:-9]})
    refuses(DataError, r"model\.safetensors: not a readable weights file", pull, "me/golden", tmp_path / "out", api=api)
    assert not (tmp_path / "out").exists()
    (model / "model.safetensors").unlink()
    refuses(DataError, r"model\.safetensors: not a readable weights file", push, model, "me/other", api=api)
    assert "me/other" not in hub.repositories


@pytest.mark.parametrize("name", ["run.py", "../tokenizer.model", "a/b.model", "tokenizer.pkl"])
def test_files_that_no_model_folder_has_are_refused_by_name(hub, api, tmp_path, name):
    config = (small.GOLDEN / "config.json").read_text(encoding="utf-8").replace("tokenizer.model", name)
    hub.repositories["me/bad"] = [{"config.json": config.encode(), name: b""}]
    refuses(DataError, f'names "{name}", which is no file of a model folder', pull, "me/bad", tmp_path / "out", api=api)
    assert hub.asked == ["config.json"]


def test_a_place_that_holds_something_else_is_left_alone(hub, api, model, tmp_path):
    push(model, "me/golden", api=api)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    refuses(DataError, "holds something other than a model", pull, "me/golden", tmp_path / "out", api=api)
    assert contents(tmp_path / "out") == {"thesis.txt": b"mine"} and hub.asked == []


# -- others' ---------------------------------------------------------------------------------------------------------


def test_of_others_comes_what_import_reads(hub, api, tmp_path):
    more = {"tf_model.h5": b"x", "modeling.py": b"x", "onnx/model.safetensors": b"x", "vocab_codes.py": b"x"}
    weights = {"model.safetensors": b"x", "pytorch_model.bin": b"x", "checkpoint.pt": b"x"}
    hub.repositories["them/new"] = [theirs(**more, **weights)]
    pull("them/new", tmp_path / "new", api=api)
    assert set(contents(tmp_path / "new")) == {"config.json", "vocab.json", "model.safetensors"} == set(hub.asked)
    hub.repositories["them/old"] = [theirs(**more, **{"pytorch_model.bin": b"x", "training_args.bin": b"x"})]
    pull("them/old", tmp_path / "old", api=api)
    assert set(contents(tmp_path / "old")) == {"config.json", "vocab.json", "pytorch_model.bin"}
    fairseq = {"model.pt": b"x", "dict.en.txt": b"x", "spm.model": b"x", "codes.bpe.32000": b"x", "config.yaml": b"x"}
    hub.repositories["them/fairseq"] = [fairseq | {"README.md": b"x"}]
    pull("them/fairseq", tmp_path / "fairseq", api=api)
    assert set(contents(tmp_path / "fairseq")) == set(fairseq)
    hub.repositories["them/nothing"] = [{"README.md": b"x"}]
    with pytest.raises(DataError, match="them/nothing: holds no file that dragoman import reads"):
        pull("them/nothing", tmp_path / "nothing", api=api)


def test_others_need_no_network_the_second_time(hub, api, tmp_path, monkeypatch):
    hub.repositories["them/old"] = [theirs(**{"pytorch_model.bin": b"x"})]
    folder = fetch("them/old", api=api)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch("them/old", api=api) == folder
    assert {path.name for path in folder.iterdir()} == {"config.json", "vocab.json", "pytorch_model.bin"}


def test_a_name_is_fetched_and_imported(hub, api, tmp_path, monkeypatch):
    monkeypatch.setattr("dragoman.exchange.huggingface.hub._connect", lambda name: api)
    hub.repositories["them/model"] = [theirs()]
    with pytest.raises(DataError, match=r"has neither model\.safetensors nor pytorch_model\.bin"):
        import_model("them/model", tmp_path / "out")


def test_a_missing_checkpoint_is_not_looked_for_on_the_hub(hub, api, tmp_path, monkeypatch):
    monkeypatch.setattr("dragoman.exchange.huggingface.hub._connect", lambda name: api)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nllb").mkdir()
    hub.repositories["nllb/model.pt"] = [theirs()]
    refuses(DataError, r"^nllb/model\.pt: no such file$", import_model, "nllb/model.pt", tmp_path / "out")
    with pytest.raises(DataError, match=r"^nllb/small: not in the folder nllb; as a name on the Hub: .*no such model"):
        import_model("nllb/small", tmp_path / "out")


def test_what_is_ours_already_is_not_imported(model, tmp_path):
    refuses(UsageError, "is a model folder of this project already", import_model, model, tmp_path / "out")


def test_without_the_library_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    refuses(UsageError, r"pip install 'dragoman\[hf\]'", fetch, "nobody/nothing")


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_says_that_the_hub_does_not_know_who_asks(dragoman, hub, api, model, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)  # as HF_ENDPOINT and HF_HOME set them
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    code, said, messages = dragoman("push", model, "me/golden")
    assert (code, said, messages.count("\n")) == (1, "", 1)
    assert messages.startswith("dragoman: error: me/golden: the Hub does not know who asks")


def test_the_command_pulls_what_it_has_without_a_network(hub, api, tmp_path):
    hub.repositories["them/model"] = [theirs()]
    commit = pull("them/model", tmp_path / "here", api=api)
    place = tmp_path / "them"
    given = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "dragoman", "pull", "them/model", "--out", str(place)]
    environment = os.environ | given | {"HF_HUB_CACHE": constants.HF_HUB_CACHE}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    further = f"; to use it: dragoman import {place} --out MODEL"
    assert (done.returncode, done.stdout) == (0, f"{place}: them/model at {commit}{further}\n"), done.stderr
    assert contents(place) == contents(tmp_path / "here") == theirs()


# -- cards -----------------------------------------------------------------------------------------------------------


def row(metric: str, value: float, split: str = "en-de/test", **more: object) -> dict[str, object]:
    known = {"recipe": "almanac/mt", "split": split, "metric": metric, "value": value, "lines": 300, "beam": 5}
    return known | {"signature": f"nrefs:1|{metric}", "seed": 1, "averaging": "best 3"} | more


def test_a_card_is_what_the_hub_reads(model, tmp_path):
    for one in (row("bleu", 93.04), row("bleu", 48.8, "en-de/hard"), row("chrf", 95.5), row("off_target", 1.0)):
        record(tmp_path / "run" / "results.jsonl", [one])
    record(tmp_path / "run" / "results.jsonl", [row("bleu", 90.0, kind="comparison", seeds=[1, 2])])
    path = write_card(model, name="me/golden", license="apache-2.0", results=tmp_path / "run")
    read = library.ModelCard.load(path)
    assert read.data.language == ["en", "de"] and read.data.license == "apache-2.0"
    assert (read.data.library_name, read.data.pipeline_tag) == ("dragoman", "translation")
    assert read.data.tags == ["dragoman", "translation"] and read.data.metrics == ["bleu", "chrf"]
    assert read.data.model_name == "golden"
    found = {(one.dataset_name, one.metric_type): one for one in read.data.eval_results}
    scores = {("en-de/test", "bleu"): 93.04, ("en-de/hard", "bleu"): 48.8, ("en-de/test", "chrf"): 95.5}
    assert {key: one.metric_value for key, one in found.items()} == scores
    one = found["en-de/test", "bleu"]
    assert (one.task_type, one.dataset_type) == ("translation", "almanac")
    assert one.metric_args == {"signature": "nrefs:1|bleu"}
    parameters = sum(parameter.numel() for parameter in System.load(small.GOLDEN).parameters())
    assert f"Translates English text to German. {parameters:,} parameters." in read.text
    assert "dragoman pull me/golden --out model\ndragoman translate model news.txt\n" in read.text
    assert "pip install '.[hf]'" in read.text and "dragoman[" not in read.text  # it is in no registry
    assert "| en-de/test | bleu | 93.04 | 300 | 5 | best 3 | 1 | almanac/mt | nrefs:1\\|bleu |" in read.text
    assert "| en-de/test | off_target | 1.00 |" in read.text
    assert "License" not in read.text and "90.00" not in read.text


def test_what_is_not_known_is_not_said(model):
    read = library.ModelCard.load(write_card(model))
    assert read.data.license is None and read.data.metrics is None and read.data.eval_results is None
    assert "None was stated." in read.text and "Results" not in read.text
    assert "dragoman pull OWNER/model --out model" in read.text


@pytest.mark.parametrize("languages", [["no", "de-DE"], ["zh-CN", "zh-TW"]])
def test_codes_of_languages_are_those_of_the_hub(languages):
    system = System.load(small.GOLDEN)
    system.source_languages, system.origin = languages, ["model.encoder: 3 of 3 tensors from there"]
    read = library.ModelCard(card(system, name="me/many"))
    assert read.data.language == list(dict.fromkeys([code[:2] for code in languages] + system.target_languages))
    assert f"dragoman translate model --from {languages[0]} " in read.text
    assert "- model.encoder: 3 of 3 tensors from there" in read.text


def test_cards_of_what_is_no_text_translator():
    tokenizer = System.load(small.GOLDEN).output.tokenizer
    field, vectors = small.text(tokenizer), small.embedding(tokenizer, 8, None)
    common = {"output": field, "source_languages": ["en"], "target_languages": ["en"]}
    encoder = EncoderModel(embeddings={"source": vectors}, encoder=small.encoder(width=8))
    read = library.ModelCard(card(System(model=encoder, inputs={"source": field}, **common), name="a/b"))
    assert read.data.pipeline_tag == "fill-mask" and "translate" not in read.text
    decoder = small.decoder(width=8, memories=None)
    writer = LanguageModel(target_embedding=vectors, decoder=decoder, projection=TiedProjection(embedding=vectors))
    read = library.ModelCard(card(System(model=writer, inputs={}, **common), name="a/b"))
    assert read.data.pipeline_tag == "text-generation" and "A language model of English text." in read.text


def test_results_that_are_none_are_refused(model, tmp_path):
    refuses(DataError, r"results\.jsonl: no results there", write_card, model, results=tmp_path)
    (tmp_path / "results.jsonl").write_text(json.dumps({"scores": {"bleu": 1.0}}) + "\n")
    refuses(DataError, "line 1: not a result", write_card, model, results=tmp_path)
    assert not (model / "README.md").exists()
    (tmp_path / "other").mkdir()
    refuses(DataError, "not a model folder", write_card, tmp_path / "other")
    assert write_card(tmp_path) == model / "README.md"  # as of a run's folder
