"""Exported folders come back as they were, without transformers (its own outputs: tests/parity/test_reimport.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman import BeamSearch, DataError, Rules, System, UsageError
from dragoman.exchange.huggingface.hf_export import export
from dragoman.exchange.importing import import_model
from dragoman.shared.nn.positions import LearnedPositions, SinusoidalPositions
from tests.dragoman.exchange.huggingface.test_hf_export import system_of, tokenizer  # noqa: F401 (a fixture)

LEARNED = {"positions": LearnedPositions(width=12, length=60, offset=2), "norm": True}
OF_MARIAN = SinusoidalPositions(width=12, offset=0, endpoint=False)
KINDS: dict[str, dict[str, Any]] = {
    "m2m_100": {},
    "mbart": {"embedding": LEARNED},
    "bart": {"embedding": LEARNED, "layer": {"pre_norm": False}},
    "fsmt": {"layer": {"pre_norm": False}},
    "marian": {"embedding": {"positions": OF_MARIAN}, "layer": {"pre_norm": False}},
}
SEARCH = BeamSearch(rules=Rules(maximum_length_extra=9))


def exported(system: System, folder: Path, *, older: bool = False) -> Path:
    """Export a system whose parameters are disturbed, as earlier versions did if that is asked for."""
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    system.save(folder / "ours")
    export(folder / "ours", folder / "theirs")
    path = folder / "theirs" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    if older:
        del config["dragoman"]
    path.write_text(json.dumps(config), encoding="utf-8")
    return folder / "theirs"


def outputs(system: System, **languages: str) -> list[tuple[str, float]]:
    """Return the pieces of the best outputs, and their scores."""
    found = system.hypotheses(["the low", "tower low the", "we"], search=SEARCH, **languages)
    symbol = system.output.tokenizer.symbol
    return [(" ".join(map(symbol, best[0].tokens)), pytest.approx(best[0].score, abs=1e-4)) for best in found]


@pytest.fixture(autouse=True)
def the_same_chance() -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_one_direction(kind: str, older: bool, tokenizer: Any, tmp_path: Path) -> None:  # noqa: F811
    system = system_of(tokenizer, **KINDS[kind]).eval()
    folder = exported(system, tmp_path, older=older)
    assert json.loads((folder / "config.json").read_text())["model_type"] == kind
    import_model(folder, tmp_path / "back")
    back = System.load(tmp_path / "back")
    assert (back.source_languages, back.target_languages) == (["en"], ["de"])
    assert outputs(back) == outputs(system) and len({*map(str, outputs(back))}) == 3
    with pytest.raises(UsageError, match="no symbol for fr, only for"):
        import_model(folder, tmp_path / "other", target_languages=["fr"])
    import_model(folder, tmp_path / "other", target_languages=["en"])
    assert System.load(tmp_path / "other").output.prefix_ids("en") == [back.output.tokenizer.id("<en>")]


def test_several_directions(tokenizer: Any, tmp_path: Path) -> None:  # noqa: F811
    plain = system_of(tokenizer)
    codes = {"source_languages": ["en", "de"], "target_languages": ["de", "en"]}
    system = System(**plain.arguments | codes).eval()
    import_model(exported(system, tmp_path), tmp_path / "back")
    back = System.load(tmp_path / "back")
    assert {"source_languages": back.source_languages, "target_languages": back.target_languages} == codes
    seen = set()
    for source, target in (("en", "de"), ("de", "en"), ("en", "en")):
        languages = {"source_language": source, "target_language": target}
        assert outputs(back, **languages) == outputs(system, **languages)
        seen.add(str(outputs(back, **languages)))
    assert len(seen) == 3


@pytest.mark.parametrize(
    "value",
    [5, {}, {"symbols": []}, {"symbols": {"<s>": 5}}, {"symbols": {}, "source": {"languages": "en"}, "target": {}}],
)
def test_what_an_export_does_not_say(value: Any, tokenizer: Any, tmp_path: Path) -> None:  # noqa: F811
    folder = exported(system_of(tokenizer), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    for wrong in (value, config["dragoman"] | (value if isinstance(value, dict) and value else {"symbols": 1})):
        (folder / "config.json").write_text(json.dumps(config | {"dragoman": wrong}))
        with pytest.raises(DataError, match=r"config\.json: dragoman does not say what an export says"):
            import_model(folder, tmp_path / "back")
    said = config["dragoman"] | {"target": config["dragoman"]["target"] | {"prefix": ["<xx>"]}}
    (folder / "config.json").write_text(json.dumps(config | {"dragoman": said}))
    with pytest.raises(DataError, match=r"config\.json: dragoman: the tokenizer has no symbol '<xx>'"):
        import_model(folder, tmp_path / "back")


WHOLE = {"pair": [{"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {
    "<en>": {"id": "<en>", "ids": [9], "tokens": ["<en>"]}, "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]},
}}  # fmt: skip
TEXT = {"Sequence": {"id": "A", "type_id": 0}}


@pytest.mark.parametrize(
    ("processor", "before", "behind"),
    [
        (None, [], []),
        ({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True,
          "add_prefix_space": True}, ["<s>"], ["</s>"]),
        ({"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            WHOLE | {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<en>", "type_id": 0}}, TEXT]},
        ]}, ["<en>"], []),
        (WHOLE | {"type": "TemplateProcessing", "single": [TEXT, {"SpecialToken": {"id": "</s>", "type_id": 0}},
         {"SpecialToken": {"id": "<en>", "type_id": 0}}]}, [], ["</s>", "<en>"]),
    ],
)  # fmt: skip
def test_templates(
    processor: Any, before: list[str], behind: list[str], tokenizer: Any, tmp_path: Path  # noqa: F811
) -> None:  # fmt: skip
    folder = exported(system_of(tokenizer), tmp_path, older=True)
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps(content | {"post_processor": processor}), encoding="utf-8")
    import_model(folder, tmp_path / "back", source_languages=["en"])
    field = System.load(tmp_path / "back").inputs["source"]
    assert (field.prefix, field.suffix) == (before, behind)


def test_symbols_may_be_said_as_objects(tokenizer: Any, tmp_path: Path) -> None:  # noqa: F811
    folder = exported(system_of(tokenizer), tmp_path, older=True)
    path = folder / "tokenizer_config.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    for form in (lambda name: {"content": said[name], "lstrip": True}, lambda name: None):
        path.write_text(json.dumps(said | {name: form(name) for name in ("unk_token", "mask_token")}))
        import_model(folder, tmp_path / f"back {form('pad_token') is None}", source_languages=["en"])
    whole, bare = (System.load(tmp_path / f"back {none}").inputs["source"].tokenizer for none in (False, True))
    assert [whole.symbol(whole.id(name)) for name in ("<unk>", "<mask>")] == ["<unk>", "<mask>"]
    assert bare.symbol(bare.id("<unk>")) == bare.symbol(bare.id("<pad>")) and "<mask>" not in bare.symbols


def test_an_output_may_start_with_a_piece_of_text(tokenizer: Any, tmp_path: Path) -> None:  # noqa: F811
    """Settings may name a row that is no symbol here: outputs start with it, and texts have the piece as before."""
    folder = exported(system_of(tokenizer), tmp_path, older=True)
    import_model(folder, tmp_path / "plain", source_languages=["en"])
    row = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]["w"]
    for name in ("config.json", "generation_config.json"):
        said = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(said | {"decoder_start_token_id": row}))
    import_model(folder, tmp_path / "back", source_languages=["en"], target_languages=["de"])
    plain, back = (System.load(tmp_path / name).output for name in ("plain", "back"))
    assert back.prefix_ids("de") == [row] != plain.prefix_ids("de")
    assert back.tokenizer.encode("two low") == plain.tokenizer.encode("two low")
