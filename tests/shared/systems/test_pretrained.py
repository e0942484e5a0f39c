"""Model folders to begin with: other settings and the same parameters, and two of them put together."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from dragoman import DataError, System, UsageError
from dragoman.exchange.importing import import_model
from dragoman.shared.batch import Batch
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.padded import Padded
from dragoman.shared.systems.pretrained import (
    encoder,
    input_field,
    load,
    speech_front_end,
    speech_translator,
    tokenizer,
)
from dragoman.shared.systems.reading_model import ReadingModel
from tests.small import refuses

TESTS = Path(__file__).parents[2]
GOLDEN = TESTS / "golden" / "model"


def test_settings_change_and_parameters_stay(tmp_path):
    changes = {"model.encoder.recompute": True, "model.decoder.layer.dropout": 0.25}
    system, plain = load(folder=str(GOLDEN), changes=changes), System.load(GOLDEN)
    assert system.model.encoder.recompute and not system.model.decoder.recompute
    assert {layer.dropout for layer in system.model.decoder.layers} == {0.25}
    assert all(torch.equal(tensor, system.state_dict()[name]) for name, tensor in plain.state_dict().items())
    assert system.origin == [f"all parameters from {GOLDEN}"]
    system.save(tmp_path / "model")
    again = System.load(tmp_path / "model")
    assert again.model.encoder.recompute and again.model.decoder.layers[-1].dropout == 0.25
    texts = ["one two", "six three"]
    assert [h[0].texts for h in again.hypotheses(texts)] == [h[0].texts for h in plain.hypotheses(texts)]


@pytest.fixture
def masked(tmp_path):
    """Import an encoder of text; return its folder."""
    origin = TESTS / "parity" / "fairseq" / "masked_tokens"
    import_model(origin, tmp_path / "encoder", pieces="words", source_languages=["en"])
    return tmp_path / "encoder"


def test_an_encoder_for_others_has_no_heads(masked):
    system = load(folder=str(masked))
    found = encoder(system=system)
    assert [*system.model.heads] and not [*found.heads]
    assert found.encoder is system.model.encoder and found.embeddings["source"] is system.model.embeddings["source"]
    system.model = torch.nn.Linear(1, 1)
    refuses(UsageError, "^Linear has no encoder that others could read$", encoder, system=system)


def test_a_tokenizer_is_that_of_what_a_folder_reads(masked, tmp_path):
    (masked / "model.safetensors").unlink()  # its parameters are not needed
    found = tokenizer(folder=str(masked))
    lines = (TESTS / "parity" / "fairseq" / "masked_tokens" / "dict.txt").read_text(encoding="utf-8").splitlines()
    words = [line.split()[0] for line in lines]
    assert found.encode(" ".join(words[2:0:-1])) == [6, 5]  # behind <s>, <pad>, </s>, <unk> and the first word
    assert (found.bos, found.pad, found.eos, found.unk) == (0, 1, 2, 3)
    refuses(UsageError, "reads source, not 'speech'", tokenizer, folder=str(masked), name="speech")
    import_model(TESTS / "parity" / "fairseq_speech" / "waveform_base", tmp_path / "sound")
    refuses(UsageError, "'speech' is no text", tokenizer, folder=str(tmp_path / "sound"), name="speech")
    refuses(DataError, "nowhere", tokenizer, folder="nowhere")


def test_half_precision_is_left_behind(tmp_path):
    System.load(GOLDEN).half().save(tmp_path / "half")
    assert {p.dtype for p in load(folder=str(tmp_path / "half")).parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("model.encoder.recomputed", True, r"model.encoder.recomputed: there is no 'recomputed', only taps, layers, "),
        ("model.encoders.recompute", True, "there is no 'encoders', only embeddings, encoder, "),
        ("model.embeddings.speech", None, "there is no 'speech', only source"),
        ("model.encoder.layers.0", 1, "there is no '0', only what has no parts"),
        ("model.nothing", 1, f"^{GOLDEN}: cannot be changed: model.nothing: there is no 'nothing', only"),
    ],
)
def test_what_cannot_be_changed_is_named(path, value, message):
    refuses(UsageError, message, load, folder=str(GOLDEN), changes={path: value})


def test_a_field_is_had_by_its_name():
    system = load(folder=str(GOLDEN))
    assert input_field(system=system, name="source") is system.inputs["source"]
    refuses(UsageError, "^the system reads source, not 'speech'$", input_field, system=system, name="speech")


@pytest.fixture
def folders(tmp_path):
    """Import an encoder of waveforms, and a translator whose embeddings share their vectors."""
    import_model(TESTS / "parity" / "fairseq_speech" / "waveform_base", tmp_path / "speech")
    import_model(TESTS / "parity" / "fairseq" / "denoising_pre_norm", tmp_path / "text", pieces="words")
    return str(tmp_path / "speech"), str(tmp_path / "text")


def test_an_encoder_of_waveforms_stands_below_a_translator(folders, tmp_path):
    torch.manual_seed(0)
    speech, text = (load(folder=folder) for folder in folders)
    system = speech_translator(speech=speech, text=text, channels=20, source_languages=["en"]).eval()
    assert speech_front_end(speech=speech, width=8, kernels=[3], channels=4).dropout == 0.1
    assert system.reads == ["speech"] and isinstance(system.inputs["speech"], SpeechField)
    assert system.inputs["source"] is not None  # the translator's own input still has its embedding and its tokenizer
    assert (system.source_languages, system.target_languages) == (["en"], System.load(folders[1]).target_languages)
    assert system.origin[1::2] == [f"all parameters from {folder}" for folder in folders]
    assert all(line.startswith("imported from checkpoint.pt") for line in system.origin[::2])
    system.save(tmp_path / "both")
    again = System.load(tmp_path / "both")
    speech = Padded.from_sequences([torch.randn(4000), torch.randn(2500)])
    tokens = Padded.from_sequences([torch.tensor([4, 5, 6]), torch.tensor([7, 8])])
    with torch.no_grad():
        wanted = by_hand(system, *folders, speech, tokens)
        for one in (system, again):
            encoding = one.model.encode(Batch({"speech": speech, "source": tokens}))
            found = one.model.project(one.model.decode(tokens, encoding))
            for row, length in enumerate(tokens.lengths):
                torch.testing.assert_close(found[row, :length], wanted[row], rtol=1e-4, atol=1e-4)


def by_hand(system, speech_folder, text_folder, speech, tokens):
    """Compute the logits of each row with the two folders' own models and torch's convolutions."""
    below, above = ReadingModel.load(speech_folder).model, System.load(text_folder).model
    convolutions = system.model.embeddings["speech"].subsampler.convolutions
    rows = []
    for row in range(2):
        alone = Padded(speech.values[row : row + 1, : speech.lengths[row]], speech.lengths[row : row + 1])
        states = below.encode(Batch({"speech": alone})).memories["source"].values.transpose(1, 2)
        for one in convolutions:
            states = F.glu(F.conv1d(states, one.weight, one.bias, stride=2, padding=1), dim=1)
        states = states.transpose(1, 2)
        encoding = above.encode_embedded(Padded(states, torch.tensor([states.shape[1]])))
        prefix = Padded(tokens.values[row : row + 1, : tokens.lengths[row]], tokens.lengths[row : row + 1])
        rows.append(above.project(above.decode(prefix, encoding))[0])
    return rows


def test_a_language_without_a_symbol_is_refused(folders):
    speech, text = load(folder=folders[0]), System.load(GOLDEN)
    for side, code in (("source_languages", "ca"), ("target_languages", "fr")):
        said = f"{side}: '{code}' is no language of the translator of text: .*<{code}>"
        refuses(UsageError, said, speech_translator, speech=speech, text=text, **{side: [code]})


def test_what_is_neither_is_refused(folders):
    speech, text = (load(folder=folder) for folder in folders)
    refuses(UsageError, "speech: Translator is no encoder of speech", speech_translator, speech=text, text=text)
    refuses(UsageError, "text: EncoderModel is no text translator", speech_translator, speech=speech, text=speech)


def test_what_a_folder_cannot_be_is_named():
    refuses(DataError, f"^{GOLDEN}: .*encoder", load, folder=str(GOLDEN), changes={"model.encoder.layers": 3})


def test_the_tokenizer_of_what_a_folder_writes():
    expected = System.load(GOLDEN).output.tokenizer.encode("one")
    assert tokenizer(folder=str(GOLDEN), name="output").encode("one") == expected


def test_a_recipe_s_values_need_no_parameters(tmp_path):
    System.load(GOLDEN).save(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    with torch.device("meta"):
        system = load(folder=str(tmp_path / "model"))
    assert {parameter.device.type for parameter in system.parameters()} == {"meta"}
    with pytest.raises(DataError):
        load(folder=str(tmp_path / "model"))


def test_an_encoder_of_sound_writes_nothing(tmp_path):
    import_model(TESTS / "parity" / "fairseq_speech" / "waveform_base", tmp_path / "sound")
    folder = str(tmp_path / "sound")
    said = f"^{folder}: a EncoderSystem writes nothing, so not 'translation'$"
    refuses(UsageError, said, load, folder=folder, writes="translation")
    refuses(UsageError, f"^{folder}: this model writes nothing$", tokenizer, folder=folder, name="output")
    assert load(folder=str(GOLDEN), writes="translation").output_name == "translation"
