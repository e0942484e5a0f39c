"""Systems: what goes in and comes out of translate, and the model folder with everything that can be wrong with it."""

import json
import os
import pickle
import re

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from dragoman import DataError, Hypothesis, System, UsageError
from dragoman.shared import described
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import collate
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.described import describe
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.search import BeamSearch, ForbiddenFirst, ForbiddenTokens, GreedySearch, Rules, SamplingSearch
from dragoman.shared.sound.audio import SAMPLE_RATE
from dragoman.shared.systems import saved_model
from dragoman.shared.systems.combining import ensembled
from tests import small
from tests.small import refuses

WORDS = ["abc", "bca cab", "cab bca abc", "aabb", "ccab aabb", "abcabc"]
SEARCH = BeamSearch(beam=2, n_best=2, rules=Rules(maximum_length_extra=5))


@pytest.fixture(autouse=True)
def rooms(monkeypatch):
    monkeypatch.setattr(described, "PACKAGES", (*described.PACKAGES, __name__))


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(WORDS * 9, ["de", "en", "ja"], size=263)


def translator(tokenizer, kind, dropout=0.3):
    torch.manual_seed(5)
    read = small.speech_embedding(dropout=dropout) if kind == "speech" else small.embedding(tokenizer, dropout=dropout)
    return small.translator(tokenizer, embeddings={kind: read}, sizes={"dropout": dropout})


def make(tokenizer, kind="source", cls=System, **options):
    inputs = {kind: SpeechField() if kind == "speech" else small.text(tokenizer)}
    return small.system(tokenizer, translator(tokenizer, kind), cls=cls, inputs=inputs, **options).eval()


def flat(found):
    return [[(h.tokens, h.texts) for h in one] for one in found], [h.score for one in found for h in one]


def assert_same(one, other, tolerance=1e-5):
    assert flat(one)[0] == flat(other)[0]
    assert flat(one)[1] == pytest.approx(flat(other)[1], abs=tolerance)


def test_one_sentence_gives_a_text_and_many_give_hypotheses(tokenizer):
    system = make(tokenizer)
    found = system.hypotheses(WORDS, search=SEARCH)
    assert [len(one) for one in found] == [2] * 6 and all(isinstance(h, Hypothesis) for one in found for h in one)
    assert system.translate("abc", search=SEARCH) == found[0][0].texts["translation"]
    assert system.hypotheses([]) == []


def test_order_and_blank_lines_are_kept(tokenizer):
    system = make(tokenizer)
    plain = system.hypotheses(WORDS, search=SEARCH)
    mixed = ["", WORDS[2], " \t", "\u3000", WORDS[0], "\u200b \u200f\ufeff", WORDS[1]]
    found = system.hypotheses(mixed, search=SEARCH, batch_size=2)
    empty = [[Hypothesis([], 0.0, {"translation": ""})]]
    assert found[0:1] == found[2:3] == found[3:4] == found[5:6] == empty
    assert_same([found[1], found[4], found[6]], [plain[2], plain[0], plain[1]])
    assert system.translate("  ") == "" and system.translate(["", ""]) == ["", ""]
    assert system.hypotheses(["", ""]) == empty * 2
    refuses(UsageError, "a list of inputs", system.hypotheses, "abc")


@pytest.mark.parametrize("kind", ["source", "speech"])
def test_the_output_does_not_depend_on_the_batch(tokenizer, kind, tmp_path):
    system = make(tokenizer, kind)
    items = WORDS
    if kind == "speech":
        items = [sound(tmp_path / f"{i}.wav", (0.3 + 0.4 * i, 300 + 200 * i)) for i in range(5)]
    alone = system.hypotheses(items, search=SEARCH, batch_size=1, keep_silence=True)
    assert len({tuple(one[0].tokens) for one in alone}) > 1 or len({one[0].score for one in alone}) == len(items)
    for size in (2, 5, 99):
        assert_same(system.hypotheses(items, search=SEARCH, batch_size=size, keep_silence=True), alone)
    assert_same(system.hypotheses(items[::-1], search=SEARCH, keep_silence=True), alone[::-1])


def test_modes_come_back_as_they_were(tokenizer):
    system = make(tokenizer)
    quiet = flat(system.hypotheses(WORDS, search=SEARCH))
    system.train()
    system.model.encoder.eval()  # frozen
    assert flat(system.hypotheses(WORDS, search=SEARCH)) == quiet  # no dropout
    assert system.training and system.model.decoder.training and not system.model.encoder.training
    refuses(DataError, "Unicode", system.hypotheses, ["abc", "\ud800"])
    system.translate_batch = lambda batch, search: 1 / 0
    with pytest.raises(ZeroDivisionError):
        system.translate("abc")
    assert system.training and system.model.decoder.training and not system.model.encoder.training


@pytest.mark.parametrize("kind", ["source", "speech"])
def test_autograd_is_off_and_training_goes_on_afterwards(tokenizer, kind, tmp_path):
    system = make(tokenizer, kind)
    seen = []
    project = system.model.project
    system.model.project = lambda states: seen.append(states.requires_grad) or project(states)
    path = sound(tmp_path / "a.wav", (1, 300))
    system.translate("abc" if kind == "source" else path, search=SEARCH, keep_silence=True)
    assert seen and not any(seen)
    row = {"id": "r", "audio": path, "start": 0.0, "duration": 1.0, "source_text": "abc", "target_text": "cba"}
    fields = system.inputs | {"target": system.output}
    batch = collate([row | {"source_language": "en", "target_language": "de"}], fields, np.random.default_rng(0))
    objective = EncoderDecoderObjective(system=system.train(), parts=[CrossEntropy(label_smoothing=0.0)])
    objective(batch).total().backward()  # fails if something kept a tensor of inference mode
    assert all(p.grad is not None for p in system.parameters())


def test_languages(tokenizer):
    system = make(tokenizer, target_languages=["de", "ja"])
    refuses(UsageError, "several target languages .*de, ja", system.translate, "abc")
    with pytest.raises(UsageError, match="source language 'fr' is unknown to this system, which knows en"):
        system.translate("abc", source_language="fr", target_language="de")
    refuses(UsageError, "'DE'", system.hypotheses, [], target_language="DE")
    scores = [system.hypotheses(["abc"], target_language=code)[0][0].score for code in ("de", "ja")]
    assert scores[0] != scores[1]  # the tag is the decoder's start
    refuses(DataError, "'deu'", make, tokenizer, target_languages=["deu"])
    for wrong in ([], "de"):
        refuses(UsageError, "source_languages", make, tokenizer, source_languages=wrong)


def test_what_an_output_begins_with_may_depend_on_the_source_and_demands_hold_in_every_search(tokenizer, tmp_path):
    field = TextField(column="target_text", tokenizer=tokenizer, prefix=["<{target_language}>", "<{source_language}>"])
    options = {"source_languages": ["en", "ja"], "target_languages": ["de"]}
    plain = make(tokenizer, **options)
    system = System(**plain.arguments | {"output": field}).eval()

    def found(one, source, search=None):
        search = search or GreedySearch(rules=Rules(maximum_length_extra=8))
        [best] = one.hypotheses(["eins"], source_language=source, search=search)
        return best[0]

    tag = tokenizer.id
    assert system.prefix(["de", "de"], sources=["en", "ja"]).values.tolist() == [
        [tag("<de>"), tag("<en>")], [tag("<de>"), tag("<ja>")]
    ]  # fmt: skip
    refuses(DataError, "'<{source_language}>' needs a language", system.prefix, ["de"])
    # Forced, a symbol is part of the output; of the start, it is not.
    assert [found(system, source).tokens[0] for source in ("en", "ja")] == [tag("<en>"), tag("<ja>")]
    free = found(System(**system.arguments | {"start_symbols": 2}).eval(), "en")
    assert free.tokens[:7] == found(system, "en").tokens[1:8]
    banned = sorted({*free.tokens} - {tokenizer.eos})
    bans = [ForbiddenTokens(tokens=banned), ForbiddenFirst(tokens=[tag("<ja>")])]
    demanding = System(**system.arguments | {"start_symbols": 2, "bans": bans}).eval()
    demanding.save(tmp_path / "model")
    for one in (demanding, System.load(tmp_path / "model"), demanding.for_task(reads=["source"])):
        for search in (None, BeamSearch(beam=2, rules=Rules(maximum_length_extra=8)), SamplingSearch()):
            tokens = found(one, "ja", search).tokens
            assert not {*banned} & {*tokens}
    with pytest.raises(UsageError, match="fewer than 3 start symbols"):
        found(System(**system.arguments | {"start_symbols": 3}).eval(), "en")
    assert describe(ensembled([demanding, demanding]).bans) == describe(bans)
    other = System(**demanding.arguments | {"output": TextField(**field.arguments | {"prefix": ["<de>", "<en>"]})})
    refuses(UsageError, "its output in 'de' begins with other symbols", ensembled, [demanding, other.eval()])


def test_inputs_of_the_other_kind(tokenizer, tmp_path):
    text, speech = make(tokenizer), make(tokenizer, "speech")
    path = sound(tmp_path / "a.wav", (1, 300))
    for item in (path, str(path)):
        refuses(UsageError, "reads text.*a.wav", text.hypotheses, [item])
    assert isinstance(text.translate("missing.wav", search=SEARCH), str)  # text may look like this
    for item in (None, 3, b"abc"):
        refuses(UsageError, "reads text", text.hypotheses, [item])
        refuses(UsageError, "reads speech", speech.hypotheses, [item])
    for item in ("A sentence.", "A long one. " * 999, "a\0b"):
        with pytest.raises(DataError, match=r"no such sound file \(this system reads speech\)") as error:
            speech.translate(item)
        assert len(str(error.value)) < 300
    refuses(DataError, "a folder, not a sound file", speech.translate, tmp_path)
    os.mkfifo(tmp_path / "pipe.wav")
    refuses(DataError, "pipe.wav: a named pipe, not a sound file", speech.translate, tmp_path / "pipe.wav")


def sound(path, *parts, rate=SAMPLE_RATE):
    """Write tones of (seconds, frequency); frequency 0 is silence."""
    wave = [0.5 * np.sin(2 * np.pi * f * np.arange(round(s * rate)) / rate).astype(np.float32) for s, f in parts]
    soundfile.write(path, np.concatenate(wave), rate, subtype="FLOAT")
    return path


class Ear(System):
    """Writes the strongest frequency of what it hears, with two hypotheses of other scores; silence is empty."""

    sizes: list[list[int]]

    @property
    def texts(self):
        spoken = TextField(column="source_text", tokenizer=self.output.tokenizer)
        return {"transcript": spoken, self.output_name: self.output}

    def translate_batch(self, batch, search):
        self.__dict__.setdefault("sizes", []).append(batch["speech"].lengths.tolist())
        found = []
        for wave in batch["speech"].rows():
            power = np.abs(np.fft.rfft(wave.numpy()))
            tone = round(np.argmax(power) * SAMPLE_RATE / len(wave) / 100)
            text = str(tone) if power.max() > 1e-3 else ""
            texts = {self.output_name: text, "transcript": text}
            found.append([Hypothesis([tone], -tone / 10, texts), Hypothesis([0], -9.0, texts)])
        return found


def test_an_array_is_translated_as_its_file(tokenizer, tmp_path):
    system = make(tokenizer, "speech", Ear)
    path = sound(tmp_path / "a.wav", (2, 900), (0.5, 0), (2, 300), rate=22050)
    wave, rate = soundfile.read(path, dtype="float32")
    options = {"maximum_seconds": 2.5, "keep_silence": True, "sample_rate": rate}
    stereo = torch.from_numpy(np.stack([wave, wave]))
    assert system.translate(wave, **options) == system.translate(stereo, **options) == "9 3"
    assert system.translate([path, wave], **options) == ["9 3", "9 3"]
    of_file, of_array = system.timed([path, wave], **options)
    assert of_file == of_array and len(of_file) == 2
    [[found]] = system.hypotheses([(wave * 2**15).astype(np.int16)], **options)
    assert found.tokens == [9, 3]
    refuses(UsageError, "give its sample_rate in Hz", system.translate, wave)
    refuses(UsageError, "a list of inputs, not array", system.hypotheses, wave, sample_rate=rate)
    refuses(UsageError, "give sentences, not the ndarray", lambda: make(tokenizer).translate(wave))
    refuses(UsageError, "sound files or arrays, not the int 3", system.translate, [3])


def test_the_numbers_of_the_search_are_arguments(tokenizer, tmp_path):
    system = make(tokenizer)
    searched = system.hypotheses(WORDS, search=BeamSearch(beam=3, n_best=2, length_penalty=0.5))
    assert_same(system.hypotheses(WORDS, beam=3, n_best=2, length_penalty=0.5), searched)
    assert system.translate(WORDS, beam=3, n_best=1, length_penalty=0.5) == [
        one[0].texts["translation"] for one in searched
    ]
    refuses(UsageError, "best output alone: use hypotheses", system.translate, WORDS, n_best=2)
    with pytest.raises(UsageError, match="timed gives the best"):
        make(tokenizer, "speech").timed([sound(tmp_path / "a.wav", (1, 300))], n_best=2)
    refuses(UsageError, "batch_size must be a number at least 1, not 0", system.translate, WORDS, batch_size=0)


def test_a_long_file_is_its_segments_in_order(tokenizer, tmp_path):
    system = make(tokenizer, "speech", Ear)
    long = sound(tmp_path / "long.wav", (4, 900), (0.5, 0), (3, 300), (0.5, 0), (4.5, 700), (0.5, 0), (4, 500))
    short = sound(tmp_path / "short.wav", (4, 200))
    for size in (1, 2, 16):
        found = system.hypotheses([long, short, str(long)], maximum_seconds=5, keep_silence=True, batch_size=size)
        assert found[0] == found[2] and len(found[0]) == 1
        assert found[0][0].texts == {"translation": "9 3 7 5", "transcript": "9 3 7 5"}
        assert found[0][0].score == pytest.approx(-(0.9 + 0.3 + 0.7 + 0.5) / 4)
        assert found[0][0].tokens == [9, 3, 7, 5]
        assert len(found[1]) == 2 and found[1][0].texts["translation"] == "2"  # n-best as ever
        lengths = [length for sizes in system.sizes for length in sizes]
        assert lengths == sorted(lengths, reverse=True) and max(lengths) <= 5 * SAMPLE_RATE
        # Nothing that is spoken is lost, and 0.03 s is kept before and after it.
        assert sum(lengths) == pytest.approx((2 * (15.5 + 3 * 0.06) + 4) * SAMPLE_RATE, abs=12 * 160)
        system.sizes.clear()
    assert system.translate(long, maximum_seconds=5, keep_silence=True) == "9 3 7 5"
    system.sizes.clear()
    assert system.translate(long, keep_silence=True) == "7"
    assert system.sizes == [[17 * SAMPLE_RATE]]  # below the default, untouched


class Signs(Ear):
    """Writes numbers as one sign each."""

    def translate_batch(self, batch, search):
        found = super().translate_batch(batch, search)
        return [
            [Hypothesis(h.tokens, h.score, {n: signs(t) for n, t in h.texts.items()}) for h in one] for one in found
        ]


def signs(text):
    return "".join("零一二三四五六七八九"[int(digit)] for digit in text)


@pytest.mark.parametrize(("language", "whole"), [("ja", "九三"), ("de", "九 三")])
def test_signs_of_two_segments_follow_as_the_target_language_has_them(tokenizer, tmp_path, language, whole):
    path = sound(tmp_path / "a.wav", (2, 900), (0.5, 0), (2, 300))
    system = make(tokenizer, "speech", Signs, target_languages=[language])
    options = {"maximum_seconds": 3, "keep_silence": True, "source_language": "en"}
    assert system.translate(path, **options) == whole
    [[found]] = system.hypotheses([path], **options)
    assert found.texts == {"translation": whole, "transcript": "九 三"}  # which is English


def test_an_empty_segment_leaves_no_space(tokenizer, tmp_path):
    path = sound(tmp_path / "a.wav", (2, 900), (4, 0), (2, 300))
    assert make(tokenizer, "speech", Ear).translate(path, maximum_seconds=2.5, keep_silence=True) == "9 3"


class Hears:
    """A detector to which a recording is speech if its strongest frequency is above 400 Hz."""

    name = "test's ears"

    def has_speech(self, waveform):
        power = np.abs(np.fft.rfft(waveform))
        return power.max() > 1e-3 and np.argmax(power) * SAMPLE_RATE / len(waveform) > 400


def test_segments_without_speech_are_skipped_with_a_warning(tokenizer, tmp_path, caplog):
    system = make(tokenizer, "speech", Ear)
    long = sound(tmp_path / "long.wav", (4, 900), (0.5, 0), (4, 300), (0.5, 0), (4, 200), (0.5, 0), (4, 500))
    hum, word = sound(tmp_path / "hum.wav", (1, 300)), sound(tmp_path / "word.wav", (1, 700))
    found = system.hypotheses([long, hum, word], maximum_seconds=5, detector=Hears())
    assert [one[0].texts["translation"] for one in found] == ["9 5", "", "7"]
    assert found[0][0].score == pytest.approx(-(0.9 + 0.5) / 2)  # what was skipped has no part in the mean
    assert (found[1], len(found[2])) == ([Hypothesis([], 0.0, {"transcript": "", "translation": ""})], 2)
    assert sum(len(sizes) for sizes in system.sizes) == 3  # the model never saw the others
    first, second = caplog.messages
    start, end = map(float, re.search(r"long.wav: no speech from (\S+) to (\S+) s: skipped", first).groups())
    assert start == pytest.approx(4.47, abs=0.02) and end == pytest.approx(13.03, abs=0.02)  # two segments, one warning
    assert "hum.wav: no speech from 0.00 to 1.00 s: skipped" in second and "test's ears" in second
    assert "--keep-silence" in second
    caplog.clear()
    kept = system.hypotheses([long, hum], maximum_seconds=5, keep_silence=True, detector=Hears())
    assert [one[0].texts["translation"] for one in kept] == ["9 3 2 5", "3"] and not caplog.messages


def test_a_file_whose_segments_are_all_silent_is_one_empty_output(tokenizer, tmp_path):
    long = sound(tmp_path / "long.wav", (4, 300), (0.5, 0), (4, 300))
    found = make(tokenizer, "speech", Ear).hypotheses([long], maximum_seconds=5, detector=Hears())
    assert [[h.texts["translation"] for h in one] for one in found] == [[""]] and found[0][0].score == 0


def test_broken_sound_is_named(tokenizer, tmp_path):
    system = make(tokenizer, "speech").train()
    good = sound(tmp_path / "good.wav", (1, 300))
    (tmp_path / "empty.wav").write_bytes(b"")
    for seconds, name in ((1, "nan.wav"), (30, "long-nan.wav")):
        wave = np.full(seconds * SAMPLE_RATE, 0.1, dtype=np.float32)
        wave[500] = np.nan
        soundfile.write(tmp_path / name, wave, SAMPLE_RATE, subtype="FLOAT")
    for name in ("empty.wav", "nan.wav", "long-nan.wav", "missing.wav"):
        with pytest.raises(DataError, match=rf"/{name}") as error:
            system.hypotheses([good, tmp_path / name])
        assert "\n" not in str(error.value)
    assert system.training
    refuses(UsageError, "at least 1 second, not 0", system.translate, good, maximum_seconds=0)


def test_the_command_skips_silence_or_keeps_it(dragoman, tokenizer, tmp_path):
    make(tokenizer, "speech").save(tmp_path / "model")
    quiet, one = tmp_path / "quiet.wav", tmp_path / "one.wav"
    soundfile.write(quiet, np.zeros(8000), SAMPLE_RATE)
    soundfile.write(one, np.ones(1), SAMPLE_RATE)
    options = "--device cpu --from en --to de --beam 2 --maximum-length-extra 4".split()
    command = ["translate", tmp_path / "model", quiet, one, *options]
    code, said, messages = dragoman(*command, "--speech-detector", "levels")
    assert (code, said) == (0, f"{quiet}\t\n{one}\t\n")
    assert f"{quiet}: no speech from 0.00 to 0.50 s: skipped (detector: levels and spectrum" in messages
    assert f"{one}: no speech" in messages
    code, _, messages = dragoman(*command[:3], *options, "--keep-silence")
    assert code == 0 and "no speech" not in messages
    for wrong, reason in (("ears", "not 'ears'"), ("levels", "does not apply with --keep-silence")):
        options = ["--speech-detector", wrong, *(["--keep-silence"] if wrong == "levels" else [])]
        code, _, messages = dragoman(*command, *options)
        assert code == 2 and reason in messages


@pytest.mark.parametrize("kind", ["source", "speech"])
def test_a_folder_gives_the_same_output(tokenizer, kind, tmp_path):
    system = make(tokenizer, kind)
    items = WORDS if kind == "source" else [sound(tmp_path / "a.wav", (1, 300))]
    before = system.hypotheses(items, search=SEARCH)
    system.train().save(tmp_path / "model")
    files = sorted(p.name for p in (tmp_path / "model").iterdir())
    assert files == ["config.json", "model.safetensors", "tokenizer.model"]
    assert len({p.stat().st_mode for p in (tmp_path / "model").iterdir()}) == 1  # all may be read by the same people
    again = System.load(tmp_path / "model")
    assert not any(part.training for part in again.modules())
    assert flat(again.hypotheses(items, search=SEARCH)) == flat(before)
    again.save(tmp_path / "model")  # onto what it was read from
    assert flat(System.load(str(tmp_path / "model")).hypotheses(items, search=SEARCH)) == flat(before)


class Twins(described.Described, nn.Module):
    """Two modules with one matrix, and a buffer that is a part of another."""

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.two.weight = self.one.weight
        self.register_buffer("whole", torch.arange(6.0))
        self.register_buffer("part", self.whole[2:4])


def test_tied_parameters_are_written_and_come_back_tied(tokenizer, tmp_path):
    system = make(tokenizer)
    system = System(**(system.arguments | {"model": Twins(width=3)}))
    system.save(tmp_path / "model")
    again = System.load(tmp_path / "model").model
    assert again.one.weight is again.two.weight
    assert torch.equal(again.one.weight, system.model.one.weight)
    assert again.part.tolist() == [2.0, 3.0] and again.whole.tolist() == list(range(6))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_precision_is_kept(tokenizer, dtype, tmp_path):
    system = make(tokenizer).to(dtype)
    before = system.hypotheses(WORDS, search=SEARCH)
    system.save(tmp_path / "model")
    assert {t.dtype for t in load_file(tmp_path / "model" / "model.safetensors").values()} == {dtype}
    again = System.load(tmp_path / "model")
    assert {p.dtype for p in again.parameters()} == {dtype}
    assert flat(again.hypotheses(WORDS, search=SEARCH)) == flat(before)


def test_a_failed_save_leaves_the_old_model(tokenizer, tmp_path, monkeypatch):
    make(tokenizer).save(tmp_path / "model")
    before = {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()}

    def full(tensors, path):
        path.write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved_model, "save_file", full)
    with pytest.raises(DataError, match="model: the model could not be written .*No space left"):
        make(tokenizer).save(tmp_path / "model")
    assert {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_nothing_but_a_model_is_replaced(tokenizer, tmp_path):
    system = make(tokenizer)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    (tmp_path / "notes").write_text("more work")
    for name in ("thesis", "notes"):
        refuses(DataError, f"{name}: holds something other than a model", system.save, tmp_path / name)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"
    assert (tmp_path / "notes").read_text() == "more work"
    (tmp_path / "empty").mkdir()
    system.save(tmp_path / "empty")
    system.save(tmp_path / "deep" / "er")
    assert System.load(tmp_path / "empty") and System.load(tmp_path / "deep" / "er")


def test_a_lost_tokenizer_is_named(tokenizer, tmp_path):
    make(tokenizer).save(tmp_path / "model")
    again = System.load(tmp_path / "model")
    (tmp_path / "model" / "tokenizer.model").unlink()
    refuses(DataError, r"other: the model could not be written .*tokenizer\.model", again.save, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def edited(change):
    def edit(folder):
        config = json.loads((folder / "config.json").read_text())
        change(config)
        (folder / "config.json").write_text(json.dumps(config))

    return edit


def tensors(change):
    def edit(folder):
        state = load_file(folder / "model.safetensors")
        change(state)
        save_file(state, folder / "model.safetensors")

    return edit


def argued(**changes):
    return edited(lambda config: config["system"]["arguments"].update(changes))


def truncate(name, size):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def bomb(name):
    return lambda folder: (folder / name).write_bytes(pickle.dumps(small.Bomb(folder / "exploded")))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda f: (f / "config.json").unlink(), r"not a model folder \(it has no config.json\)"),
        (lambda f: (f / "model.safetensors").unlink(), r"model.safetensors: not a readable weights file"),
        (lambda f: (f / "tokenizer.model").unlink(), r"tokenizer.model: no such tokenizer model"),
        (truncate("model.safetensors", 4), "model.safetensors: not a readable"),
        (truncate("model.safetensors", 300), "model.safetensors: not a readable"),
        (truncate("model.safetensors", -8), "model.safetensors: not a readable"),
        (truncate("config.json", 300), "config.json: JSONDecodeError"),
        (truncate("config.json", 0), "config.json: JSONDecodeError"),
        (lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), "config.json: UnicodeDecodeError"),
        (lambda f: (f / "config.json").write_text("[1]"), "config.json: does not describe a model"),
        (lambda f: (f / "config.json").write_text("[" * 99999), "config.json: .*nested more than 100 levels deep"),
        (edited(lambda c: c.pop("system")), "needs 'format' and 'system'"),
        (edited(lambda c: c.update(format=2)), "format 2 is not the known one, 1"),
        (edited(lambda c: c["system"].update({"class": "os.system"})), "'os.system' is not a class of this project"),
        (argued(colour="red"), "config.json: TypeError: .*colour"),
        (edited(lambda c: c["system"]["arguments"].pop("model")), "config.json: TypeError: .*model"),
        (
            edited(lambda c: c.update(system=c["system"]["arguments"]["model"]["arguments"]["encoder"])),
            "describes a Encoder, not a System",
        ),
        (tensors(lambda s: s.pop(next(iter(s)))), r"model.safetensors: does not fit the model: missing model\."),
        (bomb("model.safetensors"), "model.safetensors: not a readable"),
        (bomb("config.json"), "config.json: UnicodeDecodeError"),
        (bomb("tokenizer.model"), "tokenizer.model: not a SentencePiece model"),
    ],
)
def test_a_bad_folder_is_one_line_that_names_the_file(tokenizer, tmp_path, harm, message):
    folder = tmp_path / "model"
    make(tokenizer).save(folder)
    harm(folder)
    with pytest.raises(DataError, match=message) as error:
        System.load(folder)
    assert "\n" not in str(error.value) and str(folder) in str(error.value)
    assert not (folder / "exploded").exists()


def test_a_pickle_in_place_of_a_folder_is_not_opened(tokenizer, tmp_path):
    file = tmp_path / "model.pt"
    torch.save({"model": small.Bomb(tmp_path / "exploded")}, file)
    refuses(DataError, r"model\.pt: not a model folder", System.load, file)
    assert not (tmp_path / "exploded").exists()
    refuses(DataError, "missing: not a model folder", System.load, tmp_path / "missing")
    pickle.loads(pickle.dumps(small.Bomb(tmp_path / "exploded"))).close()
    assert (tmp_path / "exploded").exists()  # it would have left its trace
