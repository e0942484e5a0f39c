"""Recordings with times: the segments follow one another, and each format says the same of them."""

import json
import math
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import soundfile

import dragoman as package
from dragoman import Manifest, System, UsageError
from dragoman.commands.timed_output import rendered
from dragoman.commands.whole_talks import evaluate_talks
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.resegment import resegment_text
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import Translator
from dragoman.shared.search import AllowedTokens
from dragoman.shared.sound.audio import SAMPLE_RATE
from dragoman.shared.sound.pauses import file_segments
from dragoman.shared.sound.segmentation import named_segmenter
from dragoman.shared.systems.timed import TimedText
from dragoman.shared.systems.word_times import aligned_text, word_times, words_of_segments
from tests.small import GOLDEN, refuses

OPTIONS = ["--maximum-seconds", "1.3", "--keep-silence", "--maximum-length-extra", "6", "--device", "cpu"]


@pytest.fixture
def talk(tmp_path):
    """Bursts of noise of 0.7 s with pauses of 0.3 s between them."""
    rng = np.random.default_rng(1)
    burst = np.concatenate([rng.normal(0, 0.1, int(0.7 * SAMPLE_RATE)), np.zeros(int(0.3 * SAMPLE_RATE))])
    soundfile.write(tmp_path / "talk.wav", np.tile(burst, 4), SAMPLE_RATE)
    return tmp_path / "talk.wav"


def test_segments_hold_their_bursts_and_what_the_whole_text_holds(speech_model, talk):
    system = package.load(speech_model, device="cpu")
    search = package.BeamSearch(beam=2, rules=package.Rules(maximum_length_extra=6))
    options = {"maximum_seconds": 1.3, "keep_silence": True, "search": search}
    seen = []
    [segments] = system.timed([talk], **options, progress=lambda done, total: seen.append((done, total)))
    assert [segment.start for segment in segments] == pytest.approx([0.0, 0.97, 1.97, 2.97], abs=0.011)
    assert [segment.end for segment in segments] == pytest.approx([0.73, 1.73, 2.73, 3.73], abs=0.011)
    texts = [segment.texts["translation"] for segment in segments]
    assert system.translate(talk, **options) == " ".join(filter(None, texts))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_command_says_what_a_second_of_sound_takes(dragoman, speech_model, talk, tmp_path):
    talks = tmp_path / "talks"
    talks.mkdir()
    for name in ("a.wav", "b.wav"):
        (talks / name).write_bytes(talk.read_bytes())
    (talks / "broken.wav").write_bytes(b"")
    for kind in ("text", "tsv"):
        code, _, messages = dragoman("translate", speech_model, talks, "--format", kind, *OPTIONS)
        found = re.search(r"^dragoman: 8\.0 s of sound in (\S+) s: real-time factor (\S+)$", messages, re.M)
        assert code == 1 and found, messages  # one of the three files cannot be read
        assert float(found[2]) == pytest.approx(float(found[1]) / 8.0, abs=0.05 / 8.0 + 1e-4) and float(found[2]) > 0


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("srt", "1\n00:00:00,500 --> 00:00:02,001\neins zwei\none two\n"),
        ("tsv", "file\tstart\tend\ttranslation\ttranscript\na.wav\t0.500\t2.001\teins zwei\tone two\n"),
        ("json", '"start": 0.5, "end": 2.001, "score": -1.0, "transcript": "one two", "translation": "eins zwei"}'),
    ],
)
def test_a_transcript_stands_beside_its_translation_and_times_have_three_digits(speech_model, kind, wanted):
    class Both(System):
        @property
        def texts(self):
            return {"transcript": self.output, "translation": self.output}

    system = Both(**System.load(speech_model).arguments)
    segments = [TimedText(0.50049, 2.00051, {"transcript": "one two", "translation": "eins zwei"}, -1.000049)]
    assert wanted in rendered(kind, system)(Path("a.wav"), segments)


def test_a_segment_without_speech_has_its_time_and_no_text(speech_model, tmp_path):
    soundfile.write(tmp_path / "silence.wav", np.zeros(2 * SAMPLE_RATE), SAMPLE_RATE)
    [segments] = package.load(speech_model, device="cpu").timed([tmp_path / "silence.wav"], maximum_seconds=1.0)
    assert [segment.texts for segment in segments] == [{"translation": ""}] * len(segments)
    assert segments[-1].end == pytest.approx(2.0)


def test_segments_are_those_of_the_segmenter(speech_model, talk):
    def halves(path, *, maximum):
        return [(0.0, maximum / 2), (maximum / 2, 4 - maximum / 2)]

    system = package.load(speech_model, device="cpu")
    [segments] = system.timed([talk], maximum_seconds=5.0, segmenter=halves, keep_silence=True)
    assert [(segment.start, segment.end) for segment in segments] == [(0.0, 2.5), (2.5, 4.0)]


@pytest.mark.skipif(find_spec("silero_vad") is None, reason="silero-vad is not installed (the extra vad)")
def test_the_command_divides_where_there_is_least_speech(dragoman, speech_model, talk):
    code, output, messages = dragoman("translate", speech_model, talk, "--format", "json", *OPTIONS)
    assert code == 0, messages
    options = ["--segmenter", "silero", *OPTIONS]
    code, other, messages = dragoman("translate", speech_model, talk, "--format", "json", *options)
    assert code == 0, messages
    starts, others = ([s["start"] for s in json.loads(text)["segments"]] for text in (output, other))
    assert others == [start for start, _ in named_segmenter("silero")(talk, maximum=1.3)] != starts


def test_a_system_that_reads_text_has_no_times():
    refuses(UsageError, "reads text, which has no times", package.load(GOLDEN, device="cpu").timed, ["one two"])


def test_all_formats_say_the_same(dragoman, speech_model, talk, tmp_path):
    outputs = {}
    for kind in ("json", "tsv", "srt", "vtt", "text"):
        code, outputs[kind], messages = dragoman("translate", speech_model, talk, "--format", kind, *OPTIONS)
        assert code == 0, messages
    segments = json.loads(outputs["json"])["segments"]
    assert json.loads(outputs["json"])["file"] == str(talk) and len(segments) == 4
    header, *rows = [line.split("\t") for line in outputs["tsv"].splitlines()]
    assert header == ["file", "start", "end", "translation"]
    timed = [(s["start"], s["end"], s["translation"]) for s in segments]
    assert [(float(row[1]), float(row[2]), row[3]) for row in rows] == timed
    shown = [s for s in segments if s["translation"]]
    assert shown
    starts = re.findall(r"(\d\d):(\d\d):(\d\d),(\d{3}) -->", outputs["srt"])
    assert [int(s) + int(ms) / 1000 for _, _, s, ms in starts] == pytest.approx([s["start"] for s in shown])
    assert outputs["vtt"].startswith("WEBVTT\n\n00:00:0") and outputs["vtt"].count("-->") == len(shown)
    assert outputs["text"].rstrip("\n").split("\t")[1] == " ".join(s["translation"] for s in shown)


def test_each_file_has_its_own_in_a_folder_and_a_broken_one_is_named(dragoman, speech_model, talk, tmp_path):
    other = tmp_path / "other.wav"
    other.write_bytes(talk.read_bytes())
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    out = tmp_path / "out"
    code, _, messages = dragoman("subtitle", speech_model, tmp_path, "--format", "vtt", "--out", out, *OPTIONS)
    assert code == 1 and "bad.wav: not readable as sound" in messages and "1 of 3 sound files" in messages
    assert sorted(path.name for path in out.iterdir()) == ["other.vtt", "talk.vtt"]
    assert (out / "other.vtt").read_text() == (out / "talk.vtt").read_text()
    code, _, messages = dragoman("translate", speech_model, tmp_path, "--format", "srt", *OPTIONS)
    assert code == 2 and "3 files cannot share one srt: give a folder for theirs as --out" in messages


def test_the_file_of_one_recording_may_be_named(dragoman, speech_model, talk, tmp_path):
    made = {}
    for command in ("subtitle", "translate"):
        out = tmp_path / command / "a.SRT"
        code, output, _ = dragoman(command, speech_model, talk, "--format", "srt", "--out", out, *OPTIONS)
        assert (code, output) == (0, "")
        made[command] = out.read_text()
    assert made["translate"] == dragoman("translate", speech_model, talk, "--format", "srt", *OPTIONS)[1]
    assert made["subtitle"].startswith("1\n00:00:0")
    (tmp_path / "b.srt").mkdir()  # a folder stays one
    assert dragoman("subtitle", speech_model, talk, "--out", tmp_path / "b.srt", *OPTIONS)[0] == 0
    assert (tmp_path / "b.srt" / "talk.srt").read_text() == made["subtitle"]
    code, _, messages = dragoman("subtitle", speech_model, talk, "--out", tmp_path / "c.vtt", *OPTIONS)
    assert code == 2 and "c.vtt: the output is of the form .srt, not .vtt" in messages
    assert not (tmp_path / "c.vtt").exists()


def test_subtitles_keep_the_limits_that_were_given(dragoman, speech_model, talk):
    options = [*OPTIONS, "--line-length", "4", "--lines", "1", "--characters-per-second", "1000", "--shortest", "0"]
    code, output, messages = dragoman("subtitle", speech_model, talk, *options)
    assert code == 0, messages
    blocks = [block.split("\n") for block in output.strip().split("\n\n")]
    assert len(blocks) > 4 and all(len(block) == 3 and len(block[2]) <= 4 for block in blocks)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", GOLDEN, "--format", "srt"], "reads text, which has no times for srt"),
        (["translate", GOLDEN, "--format", "ass"], "--format must be one of text, srt, vtt, tsv, json, not 'ass'"),
        (["translate", GOLDEN, "--format", "srt", "--n-best", "2"], "--format srt has one hypothesis"),
        (["translate", GOLDEN, "--format", "json", "--segmenter", "x"], "must be one of pauses, silero, not 'x'"),
        (["evaluate", GOLDEN, "x.arrow", "--segmenter", "silero"], "--segmenter applies with --talks"),
        (["translate", GOLDEN, "--out", "x"], "--out needs input files: standard input cannot be read again"),
        (["subtitle", GOLDEN, "x.wav", "--format", "tsv"], "--format must be one of srt, vtt, not 'tsv'"),
        (["subtitle", GOLDEN, "x.wav", "--gap", "-1"], "gap must be a number at least 0 and at most 3,600, not -1"),
    ],
)
def test_what_does_not_fit_is_refused(dragoman, arguments, message):
    code, output, messages = dragoman(*arguments)
    assert (code, output) == (2, "") and message in messages


@pytest.fixture
def recogniser(speech_model, tmp_path):
    """An untrained recogniser with a CTC head on its encoder."""
    system = System.load(speech_model)
    tokenizer, model = system.output.tokenizer, system.model
    head = CtcHead(tap=1, width=16, vocabulary=tokenizer.size, blank=tokenizer.blank)
    head.projection.bias.data[tokenizer.blank] = 9.0  # most positions are blank, as those of a trained head are
    encoder = Encoder(**model.encoder.arguments | {"taps": [1]})
    model = Translator(**model.arguments | {"encoder": encoder, "heads": {"ctc": head}})
    field = TextField(column="source_text", tokenizer=tokenizer)
    changed = {"model": model, "output": field, "output_name": "transcript", "ctc_output": field}
    System(**system.arguments | changed).save(tmp_path / "recogniser")
    return tmp_path / "recogniser"


@pytest.fixture
def limited(recogniser, tmp_path):
    """Return the recogniser, the tokens that it may write, and the options that say so."""
    system = System.load(recogniser)
    tokenizer = system.output.tokenizer
    allowed = [*tokenizer.encode("one two three"), tokenizer.eos]
    (tmp_path / "allowed.txt").write_text("".join(f"{tokenizer.symbol(id)}\n" for id in allowed))
    return system, allowed, [*OPTIONS, "--allowed", tmp_path / "allowed.txt", "--minimum-length", "4"]


def times_of(system, talk, segments):
    """Return the times of the words of segments: start, end and transcript."""
    common = {"id": "r", "audio": str(talk), "source_language": "en", "target_language": "de"}
    rows = [common | {"start": start, "duration": end - start, "source_text": text} for start, end, text in segments]
    return word_times(system, rows, budget=Budget(rows=8))


def test_subtitles_of_a_recogniser_have_the_times_of_its_words(dragoman, recogniser, talk, limited):
    system, allowed, options = limited
    options += ["--shortest", "0", "--longest-pause", "inf", "--speech-margin", "inf"]
    code, output, messages = dragoman("subtitle", recogniser, talk, *options)
    assert code == 0 and "have no times" not in messages, messages
    rules = package.Rules(maximum_length_extra=6, minimum_length=4, bans=[AllowedTokens(tokens=allowed)])
    asked = {"maximum_seconds": 1.3, "keep_silence": True, "search": package.BeamSearch(rules=rules)}
    segmenter = named_segmenter(margin=math.inf, longest_pause=math.inf)
    [segments] = system.timed([talk], segmenter=segmenter, **asked)
    words = times_of(system, talk, [(s.start, s.end, s.texts["transcript"]) for s in segments])
    starts = [float(start.replace(",", ".")) for start in re.findall(r"00:00:(\S+) -->", output)]
    assert starts == pytest.approx([of_segment[0].start for of_segment in words], abs=1e-3)
    ends = [float(end.replace(",", ".")) for end in re.findall(r"--> 00:00:(\S+)", output)]
    bounds = [time for segment in segments for time in (segment.start, segment.end)]
    assert [time for both in zip(starts, ends, strict=True) for time in both] != pytest.approx(bounds, abs=1e-3)


def test_json_has_the_words_of_a_recogniser_with_their_times(dragoman, recogniser, talk, limited):
    system, _, options = limited
    code, output, messages = dragoman("translate", recogniser, talk, "--format", "json", *options)
    assert code == 0, messages
    segments = json.loads(output)["segments"]
    words = times_of(system, talk, [(s["start"], s["end"], s["transcript"]) for s in segments])
    for segment, cues in zip(segments, words, strict=True):
        assert segment["transcript"].split() == [word["word"] for word in segment["words"]]
        found = [(word["start"], word["end"]) for word in segment["words"]]
        assert found == [pytest.approx((cue.start, cue.end), abs=2e-3) for cue in cues]


def test_a_segment_without_text_has_no_words_and_one_that_does_not_fit_no_times(recogniser, speech_model, talk):
    system = System.load(recogniser)
    long = TimedText(1.0, 1.2, {"transcript": "one two three seven " * 9}, 0.0)
    silent = TimedText(0.0, 1.0, {"transcript": ""}, 0.0)
    assert aligned_text(system) == "transcript"
    assert words_of_segments(system, talk, [silent, long]) == [[], None]
    translator = System.load(speech_model)
    assert aligned_text(translator) is None
    refuses(UsageError, "need a CTC head on a text that the system writes", words_of_segments, translator, talk, [])


def test_whole_talks_are_scored_as_the_same_lines_cut_by_hand(dragoman, speech_model, talk, tmp_path, monkeypatch):
    noise_is_speech = "dragoman.shared.systems.input_translator.rows_without_speech"
    monkeypatch.setattr(noise_is_speech, lambda rows, detector: set())
    other = tmp_path / "other.wav"
    soundfile.write(other, soundfile.read(talk)[0][::-1], SAMPLE_RATE)
    common = {"source_language": "en", "target_language": "de"}
    rows = [
        common | {"id": f"{file.stem}{n}", "audio": str(file), "start": 2.0 * n, "duration": 2.0, "target_text": text}
        for file, texts in ((talk, ["eins zwei", "drei vier"]), (other, ["fünf", "sechs sieben"]))
        for n, text in enumerate(texts)
    ]
    manifest = Manifest.write(tmp_path / "test.arrow", [rows[1], rows[0], *rows[2:]])
    system = System.load(speech_model)
    tokenizer = system.output.tokenizer
    allowed = [*tokenizer.encode("eins zwei drei vier fünf"), tokenizer.eos]
    search = package.BeamSearch(rules=package.Rules(minimum_length=4, bans=[AllowedTokens(tokens=allowed)]))
    workspace = Workspace(output=tmp_path, device="cpu", noprogressbar=True)
    asked = {"search": search, "workspace": workspace}
    [evaluation] = evaluate_talks(system, manifest, metrics=["chrf", "wer"], **asked)
    lines = {}
    for file, own in ((talk, rows[:2]), (other, rows[2:])):
        cut = resegment_text(system.translate(file, search=search), [r["target_text"] for r in own], "de")
        lines |= dict(zip([r["id"] for r in own], cut, strict=True))
    assert evaluation.outputs.hypotheses == [lines[row["id"]] for row in manifest]
    assert any(evaluation.outputs.hypotheses) and [score.name for score in evaluation.scores] == ["chrf", "wer"]
    lengths = []
    segmenter = lambda path, *, maximum: lengths.append(maximum) or file_segments(path, maximum=maximum)  # noqa: E731
    evaluate_talks(system, manifest, metrics=["chrf"], segmenter=segmenter, maximum_seconds=2.5, **asked)
    assert lengths == [2.5, 2.5]
    limits = ["--maximum-length-extra", "6", "--device", "cpu"]
    code, output, messages = dragoman("evaluate", speech_model, manifest.path, "--talks", "--metrics", "chrf", *limits)
    assert code == 0 and "\tchrf\t" in output and "\t4 lines\t" in output, messages
    assert f"{talk}: 1 of 1 segments are cut off at the maximum length" in messages
    assert f"{manifest.path}: 50.0% of the outputs are empty" in messages  # a word for two lines
    code, _, messages = dragoman("evaluate", speech_model, manifest.path, "--talks", "--out", tmp_path / "out")
    assert code == 2 and "--talks translates whole recordings" in messages
    code, _, messages = dragoman("evaluate", speech_model, manifest.path, "--maximum-seconds", "5")
    assert code == 2 and "--maximum-seconds applies with --talks" in messages


WRITTEN = {
    "zh": ("我在 New York 的 Microsoft 公司工作，一共12345天。",
           "我在 New|York 的|Microsoft|公司工作，|一共12345天。"),
    "th": ("สวัสดีครับ ผมชื่อสมชาย น้ำเปล่าที่นี่อร่อยมาก", "สวัสดีครับ|ผมชื่อสมชาย|น้ำเปล่าที่นี่|อร่อยมาก"),
    "en": ("I work at Microsoft in New York.", "I work at|Microsoft|in New|York."),
}  # fmt: skip


@pytest.mark.parametrize("language", WRITTEN)
@pytest.mark.parametrize("kind", ["srt", "vtt"])
def test_subtitles_have_the_lines_of_their_language(dragoman, speech_model, talk, monkeypatch, language, kind):
    text, lines = WRITTEN[language]
    system = System.load(speech_model)
    system.target_languages = [language]
    monkeypatch.setattr("dragoman.commands.timed_output.load_models", lambda *_, **options: system)
    monkeypatch.setattr(System, "timed", lambda *_, **options: [[TimedText(0.0, 4.0, {"translation": text}, -1.0)]])
    code, output, messages = dragoman("subtitle", speech_model, talk, "--format", kind, "--line-length", "10")
    assert code == 0, messages
    found = [line for line in output.split("\n") if line and "-->" not in line and not line.isdigit()]
    assert [line for line in found if line != "WEBVTT"] == lines.split("|")


def test_talks_in_a_language_without_spaces_are_cut_between_their_signs(speech_model, talk, tmp_path, monkeypatch):
    """What is said in one segment may be in two lines, and "New York" in two segments."""
    lines = ["我在 New York 工作。", "Microsoft 很好，", "谢谢！"]
    parts = ["我在 New", "York 工作。Microsoft 很", "好，谢谢！"]
    system = System.load(speech_model)
    system.target_languages = ["zh"]
    segments = [TimedText(n, n + 1.0, {"translation": part}, -1.0) for n, part in enumerate(parts)]
    monkeypatch.setattr(System, "timed", lambda *_, **options: [segments])
    common = {"audio": str(talk), "duration": 1.0, "source_language": "en", "target_language": "zh"}
    rows = [common | {"id": str(n), "start": float(n), "target_text": line} for n, line in enumerate(lines)]
    manifest = Manifest.write(tmp_path / "test.arrow", rows)
    workspace = Workspace(output=tmp_path, device="cpu", noprogressbar=True)
    [found] = evaluate_talks(system, manifest, search=None, metrics=["bleu", "ter"], workspace=workspace)
    assert found.outputs.hypotheses == lines and [score.value for score in found.scores] == pytest.approx([100, 0])


def test_the_name_of_a_file_does_not_divide_its_row(dragoman, speech_model, tmp_path, write_sound):
    write_sound(tmp_path / "a\tb\nc.wav")
    code, output, _ = dragoman("translate", speech_model, tmp_path / "a\tb\nc.wav", "--format", "tsv", *OPTIONS)
    rows = [line.split("\t") for line in output.splitlines()]
    assert code == 0 and [len(row) for row in rows] == [4, 4] and rows[1][0] == f"{tmp_path}/a b c.wav"
