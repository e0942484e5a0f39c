"""The import of fairseq's checkpoints: names of all ages, layouts of tasks, and what is refused.

That models compute what fairseq computes is tested in tests/parity/test_fairseq.py.
"""

import argparse
import math
from pathlib import Path

import pytest
import torch

from dragoman import DataError, System, UsageError
from dragoman.exchange.fairseq.fairseq_import import import_fairseq
from dragoman.exchange.fairseq.fairseq_model import Settings
from dragoman.exchange.fairseq.fairseq_names import upgraded
from dragoman.exchange.fairseq.fairseq_text import MASKED, codes_of, layout_of
from dragoman.exchange.importing import import_model
from dragoman.exchange.unpickling import read_checkpoint
from tests import small
from tests.small import refuses

FIXTURES = Path(__file__).parents[3] / "parity" / "fairseq"
WORDS = Path("words")


def copy(folder: Path, case: str, change=lambda content: None) -> Path:
    """Copy a fixture as its oldest form, after a change to its content."""
    content = read_checkpoint(FIXTURES / case / "checkpoint.pt")
    content["args"] = argparse.Namespace(**Settings(content, "").values)
    content.pop("cfg", None)
    change(content)
    folder.mkdir(exist_ok=True)
    torch.save(content, folder / "checkpoint.pt")
    for path in (FIXTURES / case).glob("dict*"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


# -- names -----------------------------------------------------------------------------------------------------------


def test_old_names_are_brought_up_to_date():
    whole = torch.arange(18.0).view(9, 2)
    found = upgraded(
        {
            "encoder.version": torch.tensor([3.0]),
            "encoder.embed_positions._float_tensor": torch.zeros(1),
            "encoder.layers.0.in_proj_weight": torch.zeros(1),
            "decoder.layers.1.self_attn.in_proj_weight": whole,
            "decoder.layers.1.encoder_attn.in_proj_bias": whole[:, 0],
            "decoder.layers.1.layer_norms.1.weight": whole,
            "decoder.layers.1.layer_norms.2.bias": whole,
            "encoder.layers.1.layer_norms.1.bias": whole,
            "decoder.embed_out": whole,
        }
    )
    layer = ["encoder_attn_layer_norm.weight", "final_layer_norm.bias"]
    layer += [f"{part}_attn.{one}_proj.{of}" for one in "qkv" for part, of in (("encoder", "bias"), ("self", "weight"))]
    others = ["decoder.output_projection.weight", "encoder.layers.1.final_layer_norm.bias"]
    assert sorted(found) == sorted([*(f"decoder.layers.1.{name}" for name in layer), *others])
    for number, part in enumerate("qkv"):
        expected = whole[3 * number : 3 * number + 3]
        assert torch.equal(found[f"decoder.layers.1.self_attn.{part}_proj.weight"], expected)


def test_masked_language_models_of_2019_have_other_names(tmp_path):
    def older(content):
        content["args"].task = "sentence_prediction"
        parts = (("encoder.", "decoder.", 1), (".layernorm_embedding.", ".emb_layer_norm."))
        for part in parts:
            content["model"] = {name.replace(*part): tensor for name, tensor in content["model"].items()}

    new, _ = import_fairseq(FIXTURES / "masked_tokens", pieces=WORDS, source_languages=["en"], target_languages=["en"])
    folder = copy(tmp_path / "old", "masked_tokens", older)
    old, report = import_fairseq(folder, pieces=WORDS, source_languages=["en"], target_languages=["en"])
    report.check()
    for (name, one), (_, other) in zip(new.state_dict().items(), old.state_dict().items(), strict=True):
        assert torch.equal(one, other), name


@pytest.mark.parametrize(("case", "scale"), [("masked_tokens", 1.0), ("post_norm", None)])
def test_settings_that_do_not_say_whether_embeddings_are_scaled(tmp_path, case, scale):
    """By default, fairseq's RoBERTa does not scale them, and its Transformer does by the root of the width."""
    folder = copy(tmp_path / "data", case, lambda content: delattr(content["args"], "no_scale_embedding"))
    languages = ["en"] if case == "masked_tokens" else None
    system, _ = import_fairseq(folder, pieces=WORDS, source_languages=languages, target_languages=languages)
    embedding = system.model.embeddings["source"]
    assert embedding.scale == (math.sqrt(embedding.width) if scale is None else scale)


# -- what does not match ---------------------------------------------------------------------------------------------


def test_what_does_not_match_fails_unless_it_is_named(tmp_path):
    def change(content):
        del content["model"]["decoder.layers.1.fc1.bias"]
        content["model"]["decoder.adapter.weight"] = torch.ones(2)
        content["model"]["decoder.layers.0.fc2.weight"] = torch.ones(18, 23)

    folder, out = copy(tmp_path / "data", "post_norm", change), tmp_path / "model"
    named = [f"{model}decoder.layers.1.inner" for model in ("model.", "")]
    named += ["decoder.adapter", "decoder.layers.0.outer.weight"]
    message = r"checkpoint\.pt: decoder\.layers\.1\.inner\.bias is missing; decoder\.adapter"
    refuses(DataError, message, import_model, folder, out, pieces=WORDS)
    message = r"outer\.weight is \(18, 23\) instead of \(18, 22\)"
    refuses(DataError, message, import_model, folder, out, pieces=WORDS, allow=named[:3])
    assert not out.exists()
    report = import_model(folder, out, pieces=WORDS, allow=named)
    assert (report.missing, report.unexpected) == (["decoder.layers.1.inner.bias"], ["decoder.adapter.weight"])
    (line,) = System.load(out).origin
    assert line.startswith("imported from checkpoint.pt (fairseq, arch transformer): ")
    assert line.endswith(" tensors loaded, 1 missing, 1 unexpected, 1 reshaped")


def test_a_copy_of_a_shared_matrix_that_differs_is_not_passed_over(tmp_path):
    def change(content):
        name = "decoder.output_projection.weight"
        content["model"][name] = content["model"][name] + 1

    folder, out = copy(tmp_path / "data", "pre_norm_shared", change), tmp_path / "model"
    refuses(DataError, r"decoder\.output_projection\.weight is unexpected", import_model, folder, out, pieces=WORDS)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("adaptive_softmax_cutoff", "1000,2000", "adaptive_softmax_cutoff = '1000,2000' has no counterpart"),
        ("cross_self_attention", True, "cross_self_attention = True has no counterpart"),
        ("activation_fn", "selu", "activation_fn = 'selu' has no counterpart"),
        ("encoder_attention_heads", None, "do not say encoder_attention_heads"),
        ("task", "speech_to_text", "the task 'speech_to_text' has no counterpart"),
        ("decoder_output_dim", 7, "decoder_output_dim = 7 differs from the width"),
        ("source_lang", "klingon", "calls its source language 'klingon': name it with --source-languages"),
    ],
)
def test_settings_without_a_counterpart_are_named(tmp_path, setting, value, message):
    folder = copy(tmp_path / "data", "post_norm", lambda content: setattr(content["args"], setting, value))
    (folder / "dict.en.txt").rename(folder / "dict.txt")
    refuses(DataError, message, import_fairseq, folder, pieces=WORDS)


def test_a_dictionary_of_another_model_is_refused(tmp_path):
    folder = copy(tmp_path / "data", "post_norm")
    with open(folder / "dict.de.txt", "a") as file:
        file.write("omega 1\n")
    message = r"dict\.de\.txt: has 25 symbols with the 4 first ones, but the model 24 vectors"
    refuses(DataError, message, import_fairseq, folder, pieces=WORDS)
    (folder / "dict.de.txt").unlink()
    refuses(DataError, r"has no dict\.de\.txt or dict\.txt; --dictionary", import_fairseq, folder, pieces=WORDS)
    with pytest.raises(DataError, match="nothing to cut text with; name a SentencePiece model"):
        import_fairseq(folder, dictionary=FIXTURES / "post_norm")


# -- layouts of tasks ------------------------------------------------------------------------------------------------


def ids(system: System, text: str, source: str, target: str) -> tuple[list[str], list[str]]:
    """Return the symbols of a text in front of the encoder and of the decoder."""
    row = small.row(1, text, text, source_language=source, target_language=target)
    fields = (system.inputs["source"], system.output)
    return tuple([field.tokenizer.symbol(int(id)) for id in field(row, None)] for field in fields)


@pytest.mark.parametrize(
    ("case", "source", "target"),
    [
        ("post_norm", "alpha <unk> </s>", "</s> alpha <unk> </s>"),
        ("pre_norm_shared", "LANG_TOK_EN alpha <unk> </s>", "</s> LANG_TOK_DE alpha <unk> </s>"),
        ("tagged_post_norm", "LANG_TOK_EN alpha <unk> </s>", "</s> LANG_TOK_DE alpha <unk> </s>"),
        ("many_languages", "[en_XX] alpha <unk> </s>", "</s> [de_DE] alpha <unk> </s>"),
        ("denoising_pre_norm", "alpha <unk> </s> [en_XX]", "[de_DE] alpha <unk> </s> [de_DE]"),
        ("masked_tokens", "<s> alpha <unk> </s>", "<s> alpha <unk> </s>"),
    ],
)
def test_texts_have_the_symbols_of_their_task_around_them_and_none_inside(case, source, target):
    languages = ["en"] if case == "masked_tokens" else None
    system, _ = import_fairseq(FIXTURES / case, pieces=WORDS, source_languages=languages, target_languages=languages)
    for typed in ("omega", "</s>", "LANG_TOK_DE", "[en_XX]", "<mask>", "<de>"):
        assert ids(system, f"alpha {typed}", "en", "de") == (source.split(), target.split())
    assert system.inputs["source"].tokenizer.encode("alpha beta tau") == [4, 5, 22]


def test_many_languages_have_their_symbols_in_the_order_of_the_list(tmp_path):
    (tmp_path / "languages.txt").write_text("ar_AR\ncs_CZ\nzh_CN\n")
    common = {"task": "translation_multi_simple_epoch", "lang_dict": "data/languages.txt"}
    one = {"lang_tok_style": "mbart", "encoder_langtok": "src", "decoder_langtok": True}
    layout = layout_of(Settings({"args": common | one}, "x.pt"), [], tmp_path)
    assert layout.added == ["[ar_AR]", "[cs_CZ]", "[zh_CN]", "<mask>"]
    assert codes_of(layout) == {"ar": "[ar_AR]", "cs": "[cs_CZ]", "zh": "[zh_CN]"}
    assert layout.source == (["<{source_language}>"], ["</s>"])
    assert layout.target == (["</s>", "<{language}>"], ["</s>"])
    other = {"lang_pairs": "de-en,en-fr", "lang_dict": None, "encoder_langtok": "tgt", "decoder_langtok": False}
    layout = layout_of(Settings({"args": common | other}, "x.pt"), [], tmp_path)
    assert layout.added == ["__de__", "__en__", "__fr__"]
    assert (layout.source, layout.target) == ((["<{target_language}>"], ["</s>"]), (["</s>"], ["</s>"]))
    with pytest.raises(DataError, match=r"x\.pt: its languages are listed in gone\.txt"):
        layout_of(Settings({"args": common | {"lang_dict": "gone.txt"}}, "x.pt"), [], tmp_path)


def test_rows_are_counted_as_the_released_models_have_them():
    """250,001 symbols of the dictionary; 25 languages and a mask: 250,027 rows, 52: 250,054; XLM-R has a mask alone."""
    langs = "ar_AR,cs_CZ,de_DE,en_XX,es_XX,et_EE,fi_FI,fr_XX,gu_IN,hi_IN,it_IT,ja_XX,kk_KZ,ko_KR,lt_LT,lv_LV,my_MM"
    langs += ",ne_NP,nl_XX,ro_RO,ru_RU,si_LK,tr_TR,vi_VN,zh_CN"
    settings = Settings({"args": {"task": "multilingual_denoising", "langs": langs}}, "x.pt")
    layout = layout_of(settings, [], Path())
    assert 4 + 249_997 + len(layout.added) == 250_027
    assert len(codes_of(layout)) == 25
    settings = Settings({"args": {"task": "translation_multi_simple_epoch", "lang_tok_style": "mbart",
                                  "lang_dict": "there/ML50_langs.txt"}}, "x.pt")  # fmt: skip
    layout = layout_of(settings, [], FIXTURES / "many_languages")
    assert 4 + 249_997 + len(layout.added) == 250_054
    assert len(codes_of(layout)) == 52
    assert 4 + 249_997 + len(MASKED.added) == 250_002


def test_an_unknown_language_of_a_tagged_model_is_refused():
    with pytest.raises(UsageError, match="no symbol for fr, only for en, de"):
        import_fairseq(FIXTURES / "pre_norm_shared", pieces=WORDS, source_languages=["fr"])


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_imports_and_translates(dragoman, tmp_path):
    options = ["--out", tmp_path / "model", "--pieces", "words"]
    code, said, messages = dragoman("import", FIXTURES / "pre_norm_shared", *options)
    assert (code, messages) == (0, "")
    assert "tensors loaded, 0 missing, 0 unexpected, 0 reshaped" in said
    options = ["--from", "en", "--to", "de", "--device", "cpu"]
    code, said, messages = dragoman("translate", tmp_path / "model", *options, text="alpha beta\n")
    assert (code, said.count("\n")) == (0, 1) and messages.count("\n") <= 1  # random weights find no end


def test_an_encoder_alone_does_not_translate(tmp_path):
    import_model(FIXTURES / "masked_tokens", tmp_path / "model", pieces="words", source_languages=["en", "de"])
    assert System.load(tmp_path / "model").target_languages == ["en", "de"]
    with pytest.raises(UsageError, match="no decoder to translate with"):
        System.load(tmp_path / "model").translate("alpha", source_language="en", target_language="en")


def test_settings_are_found_in_every_form():
    args = {"task": "translation", "arch": "transformer", "encoder_attention_heads": 4, "source_lang": "en"}
    old = Settings({"args": args}, "x.pt")
    task = {"_name": "translation", "source_lang": "en"}
    new = Settings({"args": None, "cfg": {"task": task, "model": args}}, "x.pt")
    model = {"_name": "transformer", "encoder": {"attention_heads": 4, "normalize_before": True}}
    newest = Settings({"cfg": {"task": task, "model": model}}, "x.pt")
    for settings in (old, new, newest):
        assert {name: settings.need(name) for name in args} == args
    assert newest.need("encoder_normalize_before") is True
    refuses(DataError, r"x\.pt: not a checkpoint of fairseq", Settings, {"model": {}}, "x.pt")
