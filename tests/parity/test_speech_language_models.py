"""Speech in prompts of a language model of transformers: losses and outputs are the library's for the same vectors."""

import numpy as np
import pytest
import soundfile
import torch

from dragoman import DataError, UsageError
from dragoman.exchange.importing import import_model
from dragoman.exchange.transformers_engine.speech_llm import ChainedText, asked, speech_language_model
from dragoman.shared.batches.loader import collate
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.search import BeamSearch, GreedySearch, Rules
from dragoman.shared.systems import pretrained
from dragoman.shared.systems.system import System
from tests import small
from tests.small import refuses

transformers = pytest.importorskip("transformers")
from tests.parity.library_models import noise  # noqa: E402
from tests.parity.test_language_models import written  # noqa: E402

pytestmark = pytest.mark.parity
PROMPTS = {
    "translation": "Sound: {audio}\nInto {target_language}:",
    "transcript": "{audio}\nIn {source_language}:",
    "both": "{audio} twice",
}
SOURCES, TARGETS = ["a dog", "yes", "good morning", "the cat"], ["ein Hund", "ja", "guten Morgen", "die Katze"]
LANGUAGES = {"source_languages": ["en"], "target_languages": ["de"]}
RULES = Rules(maximum_length_extra=12, minimum_length=0, forced_free=True)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The library's language model and tokenizer, and a system with the model in which speech stands in prompts."""
    home = tmp_path_factory.mktemp("speech_llm")
    written(home / "theirs", "qwen3")
    import_model(home / "theirs", home / "ours", engine="transformers", prompt="{text}", **LANGUAGES)
    llm = pretrained.load(folder=str(home / "ours"))
    torch.manual_seed(3)
    speech = small.speech_embedding(width=llm.model.width)
    with torch.no_grad():  # as loud as the vectors of tokens
        speech.subsampler.convolutions[-1].weight.mul_(3)
    system = speech_language_model(speech=speech, llm=llm, prompts=PROMPTS, **LANGUAGES).eval()
    system.save(home / "joined")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(home / "theirs").eval()
    return transformers.AutoTokenizer.from_pretrained(home / "theirs"), theirs, System.load(home / "joined")


def vectors(models, task, sound):
    """Return what the library reads of a prompt with a sound in it (1, P, D)."""
    tokenizer, theirs, system = models
    prompt = PROMPTS[task].replace("{target_language}", "German").replace("{source_language}", "English")
    said = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False)
    around = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in text.split("{audio}")]
    before, behind = (theirs.get_input_embeddings()(torch.tensor([ids])) for ids in around)
    heard = system.model.speech(small.padded([torch.from_numpy(sound)]))
    return torch.cat([before, heard.values[:, : int(heard.lengths[0])], behind], dim=1)


@pytest.fixture
def rows(tmp_path):
    """Rows with sounds of unequal lengths."""
    found = []
    for number, sound in enumerate(noise()):
        soundfile.write(tmp_path / f"{number}.wav", sound, 16000, subtype="FLOAT")
        texts = {"source_text": SOURCES[number], "target_text": TARGETS[number]}
        heard = {"id": str(number), "audio": str(tmp_path / f"{number}.wav"), "duration": len(sound) / 16000}
        found.append(heard | texts | {"source_language": "en", "target_language": "de"})
    return found


WRITTEN = {"translation": "{target_text}", "transcript": "{source_text}", "both": "{source_text}\n{target_text}"}


@pytest.mark.parametrize("task", PROMPTS)
def test_loss_and_gradients_are_those_of_the_library_where_prompts_have_no_labels(models, rows, task):
    tokenizer, theirs, system = models
    system = asked(system=system, task=task)
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy(label_smoothing=0.0)])
    batch = collate(rows, system.inputs | {"target": system.output}, np.random.default_rng(1))
    loss = objective(batch).total()
    weight = system.model.speech.subsampler.convolutions[0].weight
    [found] = torch.autograd.grad(loss, [weight])
    total, count = 0, 0
    for row, sound in zip(rows, noise(), strict=True):
        read = vectors(models, task, sound)
        output = [
            *tokenizer(WRITTEN[task].format(**row), add_special_tokens=False)["input_ids"],
            tokenizer.eos_token_id,
        ]
        labels = torch.tensor([[-100] * read.shape[1] + output])
        inputs = torch.cat([read, theirs.get_input_embeddings()(torch.tensor([output]))], dim=1)
        total += theirs(inputs_embeds=inputs, labels=labels).loss * len(output)
        count += len(output)
    [wanted] = torch.autograd.grad(total / count, [weight])
    assert loss.item() == pytest.approx(total.item() / count, rel=5e-6)
    torch.testing.assert_close(found, wanted, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("task", ["translation", "both"])
@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_are_those_of_generate(models, beam, task):
    tokenizer, theirs, system = models
    search = GreedySearch(rules=RULES) if beam == 1 else BeamSearch(beam=beam, rules=RULES)
    found = asked(system=system, task=task).hypotheses(noise(), sample_rate=16000, search=search, keep_silence=True)
    for sound, [best] in zip(noise(), found, strict=True):
        how = {"max_new_tokens": 13, "num_beams": beam, "do_sample": False, "early_stopping": True}
        how |= {"forced_eos_token_id": 2, "suppress_tokens": [3]}  # padding is never written here
        with torch.no_grad():
            ids = theirs.generate(inputs_embeds=vectors(models, task, sound), **how)[0].tolist()
        new = ids[: ids.index(2) + 1] if 2 in ids else ids
        assert best.tokens == new
        text = tokenizer.decode(new, skip_special_tokens=True).strip()
        if task == "both":
            first, _, second = text.partition("\n")
            assert best.texts == {"transcript": first.strip(), "translation": second.strip()}
        else:
            assert best.texts == {"translation": text}


@torch.no_grad()
def test_the_bytes_of_prompts_are_those_that_the_library_keeps(models, rows):
    _, _, system = models
    batch = collate(rows, system.inputs, np.random.default_rng(1))
    state = system.model.start(system.model.encode(batch), None).fork(3)
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in state.cache.layers)
    assert held == system.model.read_bytes(batch, 3)


def test_a_task_is_asked_by_what_it_writes(models):
    _, _, system = models
    other = system.for_task(writes="transcript")
    assert [*other.texts] == ["transcript"] and other.output.side == "source" and other.task == "transcript"
    assert other.inputs["prompt"].prompt != system.inputs["prompt"].prompt
    assert other.for_task(writes="translation").inputs["prompt"].prompt == system.inputs["prompt"].prompt
    assert [*system.for_task(writes="both").texts] == ["transcript", "translation"]
    refuses(UsageError, "can write translation or transcript or both, not 'poem'", system.for_task, writes="poem")
    assert system.for_task(reads=["speech"], writes="translation") is system
    refuses(UsageError, "the system can read speech and prompt, not 'source'", system.for_task, reads=["source"])


def test_an_output_of_both_texts_is_divided_where_the_first_ends(models):
    _, _, system = models
    both = system.outputs["both"]
    row = {"id": "1", "source_text": "a\n dog", "target_text": "ein\nHund", "target_language": "de"}
    assert both.text(row) == "a dog\nein Hund" and both.texts([row, row | {"source_text": None}]) == [
        "a dog\nein Hund",
        None,
    ]
    assert both.divided("a dog\nein\nHund ") == {"transcript": "a dog", "translation": "ein\nHund"}
    assert both.divided("a dog") == {"transcript": "a dog", "translation": ""}
    assert both.lengths([row, {"id": "2", "target_text": "x"}]).tolist() == [len(both(row, None)), -1]
    one = {"one": system.outputs["translation"]}
    refuses(UsageError, "a chain has two texts or more", ChainedText, fields=one, prefix=["<start>"])


def test_what_does_not_fit_is_refused(models, rows, tmp_path):
    _, _, system = models
    written(tmp_path / "theirs", "qwen3")
    import_model(tmp_path / "theirs", tmp_path / "llm", engine="transformers", prompt="{text}", **LANGUAGES)
    llm = pretrained.load(folder=str(tmp_path / "llm"))

    def refused(match, width=llm.model.width, llm=llm, **prompts):
        speech = small.speech_embedding(width=width)
        refuses(UsageError, match, speech_language_model, speech=speech, llm=llm, prompts=prompts, **LANGUAGES)

    refused("a prompt around a sound has it, {audio}, once", translation="Translate.")
    refused("a prompt around a sound has it, {audio}, once", translation="{audio}{audio}")
    refused("the tasks are translation, transcript, both, not 'poem'", poem="{audio}")
    refused("task 'translation': there are prompts of \\['transcript'\\]", transcript="{audio}")
    refused("vectors of speech of width 16 for a language model of width 32", width=16, translation="{audio}")
    refused("a SpeechLanguageModel is no decoder-only language model", llm=system, translation="{audio}")
    batch = collate(rows, system.inputs, np.random.default_rng(1))
    system.model.lm.config.max_position_embeddings = 60
    match = r"row '2': its 'speech' is too long for the model: \d+ tokens of prompt and output, and the model has 60"
    refuses(DataError, match, system.model.encode, batch)
    system.model.lm.config.max_position_embeddings = 512
