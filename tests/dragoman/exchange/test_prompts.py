"""Prompts around a text: their parts, their ids, and what is refused."""

import pytest

from dragoman import DataError, UsageError
from dragoman.commands.lines_before import with_context
from dragoman.exchange.importing import import_model
from dragoman.exchange.transformers_engine.prompt import PromptField, divided
from tests import small
from tests.small import refuses


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(["English to German: a b c", "x <de> y"])


def test_a_prompt_is_divided_at_its_symbols_of_which_the_longest_is_found():
    assert divided("<a>one<ab>two", ["<a>", "<ab>", "<a"]) == ["<a>", "one", "<ab>", "two"]
    assert divided("plain", ["<a>"]) == ["plain"] and divided("", ["<a>"]) == []


def test_ids_are_those_of_symbols_and_of_whole_texts_without_the_last(tokenizer):
    field = PromptField(prompt=["<de>", "{source_language} to {target_language}: {text}", "</s>"], tokenizer=tokenizer)
    row = small.row("1", "a b") | {"target_language": "de"}
    wanted = [tokenizer.id("<de>"), *tokenizer.encode("English to German: a b"), tokenizer.eos]
    assert field.whole(row) == wanted and field(row, None).tolist() == wanted[:-1]
    assert field.lengths([row, {"id": "2"}]).tolist() == [len(wanted) - 1, -1]


def test_a_symbol_that_a_user_types_is_text(tokenizer):
    field = PromptField(prompt=["{text}", "</s>"], tokenizer=tokenizer)
    ids = field.whole(small.row("1", "x <de> y"))
    assert tokenizer.id("<de>") not in ids and ids[:-1] == tokenizer.encode("x <de> y")


def test_what_stands_before_a_text_has_its_place_and_is_no_place_itself(tokenizer):
    field = PromptField(prompt=["a {context} b {text}", "</s>"], tokenizer=tokenizer)
    row = small.row("1", "x {context} y") | {"context": "{text} c"}
    assert field.whole(row)[:-1] == tokenizer.encode("a {text} c b x {context} y")
    assert field.whole(small.row("1", "y"))[:-1] == tokenizer.encode("a  b y") and field.takes_context
    assert not PromptField(prompt=["{text}", "</s>"], tokenizer=tokenizer).takes_context


def test_lines_come_with_those_before_them_up_to_a_blank_one():
    lines = ["a", "b", "c", " ", "d", "e"]
    assert [(str(one), one.context) for one in with_context(lines, 2)] == [
        ("a", ""), ("b", "a"), ("c", "a\nb"), (" ", "b\nc"), ("d", ""), ("e", "d"),
    ]  # fmt: skip


def test_prompts_say_how_many_ids_a_text_has(tokenizer):
    made = [PromptField(prompt=[text, "</s>"], tokenizer=tokenizer) for text in ("{text}", "a {text}", "{text}")]
    assert made[0].fingerprint == made[2].fingerprint != made[1].fingerprint


@pytest.mark.parametrize("prompt", [["a", "</s>"], ["{text} {text}"]])
def test_a_prompt_has_the_text_once(tokenizer, prompt):
    refuses(UsageError, "a prompt has the text, {text}, once", PromptField, prompt=prompt, tokenizer=tokenizer)


def test_a_language_that_the_prompt_names_is_needed(tokenizer):
    field = PromptField(prompt=["{text} {target_language}", "</s>"], tokenizer=tokenizer)
    refuses(DataError, "row '1' has no target_language, which the prompt names", field.whole, small.row("1", "a"))


def test_options_that_do_not_go_together(tmp_path):
    refuses(UsageError, "--engine must be one of native, transformers", import_model, "x", tmp_path, engine="vllm")
    refuses(UsageError, "it needs --engine transformers", import_model, "x", tmp_path, prompt="{text}")
