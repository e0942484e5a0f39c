"""``--from auto --identifier``: a trained model tells the languages of lines and of segments."""

import json
import math

import pytest
import torch

from dragoman.commands.identifying import Identifier
from dragoman.mt.understanding.heads import LabelHead
from dragoman.mt.understanding.labelling import LabellingSystem
from dragoman.mt.understanding.labels import LabelField, LabelTokenizer
from dragoman.shared.batch import Batch
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.device import Machine
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.systems.system import System
from tests import small
from tests.small import refuses

LINES = ["a good day", "bad nights", "une bonne nuit"]
CPU = Machine(device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def own():
    return small.tokenizer(LINES, ["de", "en", "fr"])


@pytest.fixture
def identifier(tmp_path, own):
    """Write the folder of an untrained identifier, or of one that gives the same probabilities whatever it reads."""

    def write(*, speech=False, fixed=None, labels=("en", "fr")):
        torch.manual_seed(7)
        head = LabelHead(width=16, labels=len(labels), pooling="mean")
        if fixed is not None:
            torch.nn.init.zeros_(head.output.weight)
            head.output.bias.data.copy_(torch.tensor(fixed).log())
        else:
            torch.nn.init.normal_(head.output.weight)
        below = small.encoder_model(own)
        embeddings = {"speech": small.speech_embedding()} if speech else dict(below.embeddings.items())
        field = SpeechField() if speech else small.text(own, prefix=["<s>"])
        LabellingSystem(
            model=EncoderModel(embeddings=embeddings, encoder=below.encoder, heads={"label": head}),
            inputs={"speech" if speech else "source": field},
            output=LabelField(tokenizer=LabelTokenizer(labels=[*labels]), column="source_language"),
            source_languages=["en", "fr"],
        ).save(tmp_path / "identifier")
        return tmp_path / "identifier"

    return write


def alone(folder, field, values):
    """Return the probabilities that the model's own modules give each input, which is read by itself."""
    model = System.load(folder, "cpu").model.eval()
    with torch.inference_mode():
        for one in values:
            states = model.encode(Batch({field: small.padded([one])}), field).memories["source"]
            yield dict(zip(("en", "fr"), model.heads["label"](states)[0].softmax(0).tolist(), strict=True))


def test_texts_have_the_probabilities_of_the_head(identifier, own):
    folder = identifier()
    ids = [torch.tensor([own.id("<s>"), *own.encode(line), own.eos]) for line in LINES]
    expected = list(alone(folder, "source", ids))
    found = Identifier(folder, CPU, speech=False).of_texts(LINES)
    assert found == [pytest.approx(one, abs=1e-5) for one in expected]
    assert len({round(one["en"], 3) for one in found}) == 3
    assert [sum(one.values()) for one in found] == pytest.approx([1, 1, 1])


def test_sounds_have_them_too_whatever_is_in_the_batch(identifier):
    folder = identifier(speech=True)
    generator = torch.Generator().manual_seed(1)
    sounds = [torch.randn(length, generator=generator) / 9 for length in (9000, 4000, 16000)]
    found = Identifier(folder, CPU, speech=True).of_sounds(Batch({"speech": small.padded(sounds)}))
    assert found == [pytest.approx(one, abs=1e-4) for one in alone(folder, "speech", sounds)]
    assert math.isclose(sum(found[0].values()), 1, abs_tol=1e-5)


@pytest.fixture
def translator(tmp_path, own):
    read = small.text(own, prefix=["<{source_language}>"])
    small.system(own, inputs={"source": read}, source_languages=["en", "fr"]).save(tmp_path / "model")
    return tmp_path / "model"


def test_lines_are_translated_from_what_the_identifier_says(dragoman, translator, identifier):
    asked = ["translate", translator, "--maximum-length-extra", 9, "--format", "json"]
    told = ["--identifier", identifier(fixed=[0.3, 0.7])]
    text = "\n".join(LINES) + "\n"

    def found(*words):
        return [json.loads(line) for line in dragoman(*asked, *words, text=text)[1].splitlines()]

    named = found("--from", "fr")
    assert found("--from", "auto", *told) == [one | {"source_language": "fr"} for one in named]
    assert len(named) == 3 and named != found("--from", "en")
    code, _, messages = dragoman(*asked, *told, "--from", "fr", text=text)
    assert code == 2 and "--identifier is asked with --from auto only" in messages


def test_what_it_is_not_sure_of_is_unknown(dragoman, translator, identifier):
    folder = identifier(fixed=[0.4, 0.35, 0.25], labels=["en", "fr", "de"])
    asked = ["translate", translator, "--maximum-length-extra", 9, "--identifier", folder, "--from"]
    code, _, messages = dragoman(*asked, "auto", text="a good day\n")
    assert code == 1 and "line 1: the language is unknown (en is likely by 0.40, and 0.5 is asked for)" in messages
    identifier(fixed=[0.2, 0.2, 0.6], labels=["en", "fr", "de"])
    code, _, messages = dragoman(*asked, "auto", text="a good day\n")
    assert code == 1 and "line 1: the language is unknown (de is likely by 0.60, which is not among" in messages
    code, output, messages = dragoman(*asked, "auto:fr", text="a good day\n")
    assert code == 0 and "1 line in an unknown language, taken for fr: 1" in messages
    assert output == dragoman(*asked[:4], "--from", "fr", text="a good day\n")[1]


@pytest.mark.parametrize("form", [[], ["--format", "tsv"]])
def test_a_translator_without_symbols_of_languages_asks_for_those_of_sounds(
    dragoman, identifier, own, tmp_path, write_sound, form
):
    """Languages of segments decide in which one its transcripts are."""
    model = small.translator(own, embeddings={"speech": small.speech_embedding()})
    output = small.text(own, "source", prefix=["<{language}>"])
    options = {"output": output, "output_name": "transcript", "source_languages": ["en", "fr"]}
    small.system(own, model, inputs={"speech": SpeechField()}, **options).save(tmp_path / "model")
    write_sound(tmp_path / "a.wav")
    asked = ["translate", tmp_path / "model", tmp_path / "a.wav", *form, "--maximum-length-extra", 9, "--keep-silence"]
    code, _, messages = dragoman(*asked, "--from", "auto")
    assert code == 2 and "outputs of this model do not begin with the language that is heard" in messages
    named, other = (dragoman(*asked, "--from", code)[:2] for code in ("fr", "en"))
    told = ["--identifier", identifier(speech=True, fixed=[0.3, 0.7])]
    assert dragoman(*asked, "--from", "auto", *told)[:2] == named != other


def test_other_models_are_refused(identifier, translator):
    refuses(UsageError, "reads text, and is asked about speech", Identifier, identifier(), CPU, speech=True)
    refuses(UsageError, "reads speech, and is asked about text", Identifier, identifier(speech=True), CPU, speech=False)
    refuses(UsageError, "writes a translation, where a label is expected", Identifier, translator, CPU, speech=False)
