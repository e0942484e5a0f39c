"""Glossaries: how files are read, which terms a text has, and what translations with them are."""

import json
import random
import re
import string

import pytest

import dragoman as package
from dragoman.commands.glossary import Glossary, standing
from dragoman.commands.glossary_search import GlossarySearch, continuing
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.search import BeamSearch, CtcPrefixSearch, FillingSearch, SamplingSearch
from tests import small
from tests.small import GOLDEN, refusal, refuses


def glossary(pairs, **more):
    return Glossary.of([(f"entry {n}", *pair) for n, pair in enumerate(pairs, 1)], **more)


def sources(pairs, text, language="en"):
    return [term.source for term in glossary([(source, "x") for source in pairs]).found(text, language)]


# -- which terms a text has -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "text", "found"),
    [
        (["bank"], "The bank, the BANK and the Bank's banker.", ["bank"] * 3),
        (["Bank"], "The bank and the Bank", ["Bank"]),
        (["it", "IT"], "It is IT, it says", ["it", "IT", "it"]),
        (["bank", "Bank of England"], "A bank: the Bank  of\u00a0England", ["bank", "Bank of England"]),
        (["central bank", "bank account"], "a central bank account", ["central bank"]),
        (["new", "new york"], "New York is new; renew", ["new york", "new"]),
        (["C++", "C"], "C++ and C; AC", ["C++", "C"]),
        (["caf\u00e9"], "Cafe\u0301s, a CAFE\u0301", ["caf\u00e9"]),
        (["2.0"], "2.0, 12.0 and 2.01", ["2.0"]),
        (["mail"], "an e-mail's mail_box mailbox", ["mail", "mail"]),
        (["a b", "a b c", "c d"], "a b c d", ["a b c"]),
        (["one"], "", []),
    ],
)
def test_terms_are_whole_words_and_the_longest(terms, text, found):
    assert sources(terms, text) == found


def test_a_language_without_spaces_or_with_another_case():
    assert sources(["银行", "中央银行", "AI"], "中央银行的AI和银行,MAIN", "zh") == ["中央银行", "AI", "银行"]
    assert sources(["ışık"], "IŞIK ve ışık", "tr") == ["ışık", "ışık"] and sources(["ışık"], "IŞIK", "en") == []
    assert sources(["हिंद"], "हिंदी हिंद", "hi") == ["हिंद"]  # a vowel sign is a part of its word


def test_terms_are_those_of_a_pattern():
    rng = random.Random(1)
    for _ in range(300):
        terms = {" ".join(rng.choices(["ab", "a", "b", "abc"], k=rng.randint(1, 3))) for _ in range(4)}
        text = "".join(rng.choices(["ab", "a", "abc", " ", ", "], k=20))
        pattern = r"\b(?:{})\b".format("|".join(sorted(terms, key=len, reverse=True)))
        text = " ".join(text.split())
        assert sources(sorted(terms), text) == re.findall(pattern, text)


def test_words_of_an_output_are_counted():
    assert standing("Rat", "Rat, Rathaus, Beirat: Rat", "de") == 2 and standing("a a", "a a a a a", "de") == 2
    assert standing("银行", "中央银行银行", "zh") == 2


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("one\teins\ntwo zwei\n", r"line 2: no tab between source and target: 'two zwei'"),
        ("one\teins\tuno\n", r"line 1: 2 tabs between source and target: 'one\\teins\\tuno'"),
        ("one\teins\n\n \tzwei\n", r"line 3: the source is empty: '  -> zwei'"),
        ("one\t\n", r"line 1: the target is empty: 'one -> '"),
        ("one\teins\ntwo\tzwei\none\tein\n", r"line 3: 'one' is 'ein' here, and 'eins' at .*line 1"),
        ("en\tde\n\n", r"terms.tsv: has no terms below its first line, which says that they are for en-de$"),
        ("\n", r"terms.tsv: has no terms$"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, content, message):
    (tmp_path / "terms.tsv").write_text(content)
    refuses(DataError, message, Glossary.read, tmp_path / "terms.tsv")


def test_a_file_is_read(tmp_path):
    (tmp_path / "terms.tsv").write_text("\ufeffen\tde\n\none \teins\r\ntwo  times\t zwei mal\none\teins\n")
    read = Glossary.read(tmp_path / "terms.tsv")
    pairs = [(term.source, term.target) for term in read.terms]
    assert read.pair == ("en", "de") and pairs == [("one", "eins"), ("two times", "zwei mal")]
    assert read.terms[1].place == f"{tmp_path / 'terms.tsv'}: line 4"
    (tmp_path / "terms.tsv").write_text("en passant\tde paso\n")
    assert Glossary.read(tmp_path / "terms.tsv").pair is None


# -- translations -----------------------------------------------------------------------------------------------------


@pytest.fixture
def terms(tmp_path):
    def write(content, name="terms.tsv"):
        (tmp_path / name).write_text(content)
        return tmp_path / name

    return write


TEXT = "one two\nthree four\nsix, One one\n\nfive five\n"


def test_terms_are_in_the_output_and_other_lines_as_they_were(dragoman, terms):
    _, usual, _ = dragoman("translate", GOLDEN, text=TEXT)
    code, output, messages = dragoman("translate", GOLDEN, "--glossary", terms("one\tzwei neun\n"), text=TEXT)
    assert code == 0 and not messages
    counts = [standing("zwei neun", line, "de") for line in output.splitlines()]
    assert counts[0] >= 1 and counts[2] >= 2 and counts[1] == counts[3] == counts[4] == 0
    others = [line for number, line in enumerate(usual.splitlines()) if number in (1, 3, 4)]
    assert [line for number, line in enumerate(output.splitlines()) if number in (1, 3, 4)] == others
    _, none, _ = dragoman("translate", GOLDEN, "--glossary", terms("nine nine\teins\n"), text=TEXT)
    assert none == usual


def test_a_header_says_the_direction(dragoman, terms):
    asked = ["translate", GOLDEN, "--glossary"]
    _, output, _ = dragoman(*asked, terms("en\tde\none\tzwei neun\n"), text="one two\n")
    assert "zwei neun" in output
    code, _, messages = dragoman(*asked, terms("en\tfr\none\tzwei neun\n"), text="one two\n")
    assert code == 2 and "terms.tsv: is for en-fr, as its first line says, and this is en-de" in messages
    assert [one.source for one in Glossary.read(terms("so\tso\n")).terms] == ["so"]  # no direction, but a word


@pytest.mark.parametrize(
    "options",
    [
        ["--beam", "1"],
        ["--n-best", "3", "--beam", "4", "--format", "json"],
        ["--ensemble", str(GOLDEN)],
        ["--mbr", "chrf", "--beam", "4"],
        ["--no-repeat-ngram", "12"],
        ["--batch-size", "1"],
    ],
)
def test_all_ways_of_beam_search_are_held_to_terms(dragoman, terms, options):
    asked = ["translate", GOLDEN, "--glossary", terms("one\tzwei neun\n"), "--maximum-length-extra", 30, *options]
    code, output, messages = dragoman(*asked, text=TEXT)
    assert code == 0 and not [line for line in messages.splitlines() if "lacks" in line], messages
    lines = output.splitlines()
    if "json" in options:
        lines = [one["translation"] for one in json.loads(lines[0])["hypotheses"]]
        assert len(lines) == 3 and all(standing("zwei neun", line, "de") for line in lines)
    assert standing("zwei neun", lines[0], "de")


def test_files_and_paragraphs_have_their_terms(dragoman, terms, tmp_path):
    path = terms("one\tzwei neun\n")
    (tmp_path / "strings.json").write_text('{"first": "one two", "second": "three four"}')
    code, output, messages = dragoman("translate", GOLDEN, tmp_path / "strings.json", "--glossary", path)
    assert code == 0 and "zwei neun" in json.loads(output)["first"], messages
    pytest.importorskip("sentencex")
    code, output, _ = dragoman("translate", GOLDEN, "--split", "--glossary", path, text="Three four. One two.\n")
    assert code == 0 and standing("zwei neun", output, "de")


def test_what_has_no_place_is_said(dragoman, terms):
    path = terms("one\tzwei neun zwei neun\n")
    asked = ["translate", GOLDEN, "--glossary", path]
    code, output, messages = dragoman(*asked, "--maximum-length-extra", 3, text="one two\nthree\n")
    lacks = f"'one two': the output lacks 'zwei neun zwei neun' of {path}: the longest output is too short for it"
    assert code == 0 and len(output.splitlines()) == 2 and messages.count(lacks) == 1
    (path.parent / "never").write_text("z\n")
    words = ["--forbidden", path.parent / "never", "--maximum-length-extra", 12]
    _, _, messages = dragoman(*asked, *words, text="one two\n")
    assert messages.count(lacks) == 1


def test_systems_and_searches_that_cannot_be_held_are_refused_by_name(dragoman, terms, speech_model):
    for model, options, message in (
        (GOLDEN, ["--sample"], "a glossary needs beam search: SamplingSearch cannot be held to terms"),
        (GOLDEN, ["--sample", "--samples", "4", "--mbr", "chrf"], "a glossary needs beam search: SamplingSearch"),
        (GOLDEN, ["--ctc"], "CTC"),
        (speech_model, ["a.wav"], "--glossary does not apply: this model reads speech"),
    ):
        code, output, messages = dragoman("translate", model, "--glossary", terms("a\tb\n"), *options, text="one\n")
        assert code in (1, 2) and not output and message in messages
    system, some = package.load(GOLDEN), glossary([("one", "eins")])
    for search in (SamplingSearch(), FillingSearch(), CtcPrefixSearch()):
        said = refusal(UsageError, GlossarySearch, search=search, glossary=some, system=system)
        assert said == f"a glossary needs beam search: {type(search).__name__} cannot be held to terms"
    speech = package.load(speech_model)
    refuses(UsageError, "reads speech, not", GlossarySearch, search=BeamSearch(), glossary=some, system=speech)


def test_ctranslate2_is_refused(dragoman, terms):
    pytest.importorskip("ctranslate2")
    asked = ["translate", GOLDEN, "--engine", "ctranslate2", "--glossary", terms("one\teins\n")]
    code, _, messages = dragoman(*asked, text="one\n")
    assert code == 2 and "a glossary needs our own beam search (--engine native): CTranslate2System has" in messages


def test_a_term_that_the_model_cannot_write_is_refused(dragoman, terms, tmp_path):
    small.system(small.tokenizer(["eins zwei drei"], byte_fallback=False, size=20)).save(tmp_path / "model")
    path = terms("one\teins\ntwo\tzwölf\n")
    code, output, messages = dragoman("translate", tmp_path / "model", "--glossary", path, text="one\n")
    message = f"dragoman: error: {path}: line 2: the model's pieces write 'zwölf' as 'zw'\n"
    assert (code, output, messages) == (1, "", message)


#: Pieces for bytes that are letters or digits.
BYTES_OF_WORDS = {f"<0x{ord(one):02X}>" for one in "0123456789" + string.ascii_letters}


def test_tokens_that_continue_a_word_are_those_without_a_space():
    system = package.load(GOLDEN)
    marked = continuing(system)
    tokenizer = system.output.tokenizer
    for token in range(tokenizer.size):
        piece = tokenizer.symbol(token)
        assert bool(marked[token]) == (piece.isalnum() or piece in BYTES_OF_WORDS), piece
