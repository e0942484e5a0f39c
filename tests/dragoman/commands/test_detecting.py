"""``--from auto``: lines in several languages, and those whose language is unknown."""

import json

import pytest

from dragoman.commands.detecting import Detection, by_language
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import DataError, UsageError
from tests import small
from tests.small import refuses

ENGLISH = "The train to the city leaves from this station at nine in the morning."
FRENCH = "Le train pour la ville part de cette gare à neuf heures du matin."
FINNISH = "Juna kaupunkiin lähtee tältä asemalta yhdeksältä aamulla."


def test_lines_have_their_languages(capsys):
    lines = [ENGLISH, FRENCH, "", ENGLISH]
    assert Detection(["fr", "en"]).languages(lines) == ["en", "fr", "fr", "en"]
    assert Detection(["fr-FR", "en-GB"]).languages(lines[:2]) == ["en-GB", "fr-FR"]
    assert not capsys.readouterr().err


def test_an_unknown_language_is_said_and_not_guessed(capsys):
    told = Detection(["en", "fr"]).languages
    message = r"line 8: the language is unknown \(fi is likely by 1\.00, which is not among en, fr\): 'Juna"
    refuses(DataError, message, told, [ENGLISH, FINNISH], 7)
    refuses(DataError, r"line 1: the language is unknown \(.* is likely by 0\..* and 0.9 is asked", told, ["Ok"])
    taken = Detection(["en", "fr"], "fr")
    assert taken.languages([ENGLISH, FINNISH, "Ok", ENGLISH], 7) == ["en", "fr", "fr", "en"]
    assert "2 lines in an unknown language, taken for fr: 8, 9" in capsys.readouterr().err


def test_what_is_asked_for():
    assert Detection.asked("auto", ["en"]) == Detection(["en"]) and Detection.asked("en", ["en"]) is None
    assert Detection.asked("auto:en", ["en", "fr"]) == Detection(["en", "fr"], "en")
    assert Detection.asked(None, ["en"]) is None
    refuses(UsageError, "source language 'de' is unknown", Detection.asked, "auto:de", ["en", "fr"])


def test_texts_keep_their_order():
    told = by_language(["a", "b", "c"], ["x", "y", "x"], lambda code, texts: [f"{code} {text}" for text in texts])
    assert told == ["x a", "y b", "x c"]


@pytest.fixture
def model(tmp_path):
    """An untrained model whose outputs depend on the language that it is told."""
    tokenizer = small.tokenizer([ENGLISH, FRENCH, FINNISH], ("de", "en", "fr"))
    read = small.text(tokenizer, prefix=["<{source_language}>"])
    system = small.system(tokenizer, inputs={"source": read}, source_languages=["en", "fr"])
    system.save(tmp_path / "model")
    return tmp_path / "model"


def test_lines_of_two_languages_are_translated_from_each(dragoman, model):
    asked = ["translate", model, "--maximum-length-extra", 12]
    lines = [ENGLISH, FRENCH, "", FRENCH[:40], ENGLISH[:40]]

    def told(code):
        text = "\n".join(lines) + "\n"
        _, output, _ = dragoman(*asked, "--from", code, "--format", "json", text=text)
        return [json.loads(line) for line in output.splitlines()]

    found, named = told("auto"), {code: told(code) for code in ("en", "fr")}
    for number, code in enumerate(["en", "fr", "en", "fr", "en"]):
        assert found[number] == named[code][number] | {"source_language": code}
    assert named["en"][0]["hypotheses"][0]["score"] != named["fr"][0]["hypotheses"][0]["score"]
    _, output, _ = dragoman(*asked, "--from", "auto", text="\n".join(lines) + "\n")
    assert output.splitlines() == [one["hypotheses"][0]["translation"] for one in found]


def test_a_line_in_an_unknown_language_ends_the_command_or_is_taken_for_another(dragoman, model):
    asked = ["translate", model, "--maximum-length-extra", 12, "--from"]
    code, output, messages = dragoman(*asked, "auto", text=f"{ENGLISH}\n{FINNISH}\n")
    assert (code, output) == (1, "") and "line 2: the language is unknown (fi is likely" in messages
    code, output, messages = dragoman(*asked, "auto:fr", text=f"{FINNISH}\n")
    assert code == 0 and "1 line in an unknown language, taken for fr: 1" in messages
    assert output == dragoman(*asked, "fr", text=f"{FINNISH}\n")[1]


def test_other_inputs_are_refused(dragoman, model, speech_model, tmp_path):
    (tmp_path / "a.json").write_text("{}")
    code, _, messages = dragoman("translate", model, tmp_path / "a.json", "--from", "auto")
    assert code == 2 and "--from auto is for lines of text: name the language of files with a form" in messages
    code, _, messages = dragoman("translate", speech_model, "a.wav", "--from", "auto")
    assert code == 2 and "auto: outputs of this model do not begin with the language that is heard" in messages


def test_segments_of_sound_have_their_languages(dragoman, tmp_path, write_sound):
    """Of two languages one is likely enough in any case; the outputs are those of the same language by name."""
    tokenizer = small.tokenizer([ENGLISH, FRENCH, FINNISH], ("de", "en", "fr"))
    model = small.translator(tokenizer, embeddings={"speech": small.speech_embedding()})
    output = small.text(tokenizer, "source", prefix=["<s>", "<{source_language}>"])
    options = {"output": output, "output_name": "transcript", "start_symbols": 2, "source_languages": ["en", "fr"]}
    small.system(tokenizer, model, inputs={"speech": SpeechField()}, **options).save(tmp_path / "model")
    write_sound(tmp_path / "a.wav")
    asked = ["translate", tmp_path / "model", tmp_path / "a.wav", "--maximum-length-extra", 9, "--keep-silence"]
    for form in (["--format", "tsv"], ["--format", "json"], []):
        found, *named = (dragoman(*asked, *form, "--from", code)[:2] for code in ("auto", "en", "fr"))
        assert found[0] == 0 and found in named
    code, _, messages = dragoman(*asked, "--from", "auto:fi")
    assert code == 2 and "source language 'fi' is unknown" in messages
