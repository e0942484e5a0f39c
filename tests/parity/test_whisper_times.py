"""Times in Whisper's outputs against transformers: ids, what they are read as, the rules of searches, and searches."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman import BeamSearch, GreedySearch, Rules, System
from dragoman.exchange.huggingface.hf_like import export_like
from dragoman.exchange.huggingface.whisper_times import TimestampedText, TimestampRules, TimestampSystem, with_times
from dragoman.exchange.importing import import_model
from dragoman.shared.batch import Batch
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.search.bans import Opening
from dragoman.shared.systems.pretrained import load
from dragoman.shared.systems.timed import Part
from tests import small
from tests.parity.compared import Compared
from tests.parity.speech_models import features_of
from tests.small import refuses

transformers = pytest.importorskip("transformers")

from tests.parity import test_huggingface_whisper as whisper  # noqa: E402
from tests.parity import test_like  # noqa: E402

pytestmark = pytest.mark.parity

TIMES = [f"<|{0.02 * number:.2f}|>" for number in range(101)]
START = "<|startoftranscript|><|fr|><|transcribe|>"
SEGMENTS = [
    {"start": 0.0, "end": 0.4099, "source_text": "alpha beta"},
    {"start": 0.411, "end": 1.1, "source_text": "it's <|0.04|> 5"},
    {"start": 1.499, "end": None},
]
NEW = 24


def saved(folder: Path) -> Any:
    return whisper.saved("small", folder, times=TIMES)


@pytest.fixture
def system(tmp_path: Path) -> TimestampSystem:
    saved(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours", times=True).check()
    loaded = System.load(tmp_path / "ours")
    assert isinstance(loaded, TimestampSystem)
    return loaded


@pytest.fixture
def reader(system: TimestampSystem, tmp_path: Path) -> Any:
    more = {"extra_special_tokens": whisper.SPECIAL[1:]}
    found = transformers.WhisperTokenizer.from_pretrained(tmp_path / "theirs", **more)
    assert found.all_special_ids[-1] + 1 == found.convert_tokens_to_ids("<|0.00|>")  # from which it counts times
    return found


def row(**more: Any) -> dict[str, Any]:
    return small.row("r", "alpha beta gamma", "one", source_language="fr", target_language="en") | more


def ids(field: TimestampedText, row: dict[str, Any]) -> list[int]:
    return field(row, np.random.default_rng(0)).tolist()


# -- texts ------------------------------------------------------------------------------------------------------------


def test_ids_are_those_of_the_text_with_symbols_that_their_tokenizer_reads(system, reader):
    field = system.for_task(writes="transcript").output
    typed = row(segments=[SEGMENTS[0], SEGMENTS[1] | {"source_text": "it's 5"}, SEGMENTS[2]])
    written = f"{START}<|0.00|> alpha beta<|0.40|><|0.42|> it's 5<|1.10|><|1.50|><|endoftext|>"
    assert ids(field, typed) == reader.encode(written, add_special_tokens=False)
    plain = f"{START}<|notimestamps|> alpha beta gamma<|endoftext|>"
    assert ids(field, row()) == reader.encode(plain, add_special_tokens=False)
    for one in (typed, row(), row(source_text="")):
        assert field.length(one) == len(ids(field, one))
    assert field.lengths([typed, row(), row(source_text=None)]).tolist() == [*map(field.length, (typed, row())), -1]
    assert field.overhead == field.length(row(source_text=""))
    assert field.decoded(ids(field, typed)) == "alpha beta it's 5"


def test_what_is_typed_like_a_time_is_text(system, reader):
    field = system.for_task(writes="transcript").output
    written = ids(field, row(segments=SEGMENTS))
    assert [TIMES[id - field.times.start] for id in written if id in field.times] == [
        "<|0.00|>", "<|0.40|>", "<|0.42|>", "<|1.10|>", "<|1.50|>",
    ]  # fmt: skip
    assert field.segments(written)[1] == (pytest.approx(0.42), pytest.approx(1.1), "it's <|0.04|> 5")


def test_a_language_without_spaces_has_none_before_a_segment(system):
    output = system.for_task(writes="transcript").output
    field = TimestampedText(field=output.arguments["field"])
    tokenizer = field.tokenizer
    assert field.encoded("你好", "zh") == tokenizer.encode("你好")
    assert field.encoded("alpha", "fr") == tokenizer.encode(" alpha") != tokenizer.encode("alpha")


def test_outputs_are_read_as_their_offsets(system, reader):
    field = system.for_task(writes="transcript").output
    pieces = [f" {word}" for word in ("alpha", "beta gamma", "it's", "theta")]
    generator = np.random.default_rng(3)
    for _ in range(20):
        times = sorted(generator.integers(0, 101, size=8).tolist())
        written = "".join(
            f"{TIMES[start]}{text}{TIMES[end]}"
            for text, start, end in zip(pieces, times[::2], times[1::2], strict=True)
        )
        whole = reader.encode(f"{START}{written}", add_special_tokens=False)
        offsets = reader.decode(whole, output_offsets=True)["offsets"]
        found = field.segments([*whole[3:], reader.eos_token_id])
        assert [text for *_, text in found] == [one["text"].strip() for one in offsets] and len(found) == 4
        for (start, end, _), one in zip(found, offsets, strict=True):
            assert (start, end) == pytest.approx(one["timestamp"])


def test_segments_that_lack_a_time_keep_their_text(system):
    field = system.output
    zero, said = field.times.start, field.tokenizer.encode(" beta")
    assert field.segments([zero + 5, *said]) == [(pytest.approx(0.1), None, "beta")]
    assert field.segments([*said, zero + 5, zero + 6]) == [(0.0, pytest.approx(0.1), "beta")]
    assert field.segments([zero, zero + 1]) == []


def test_segments_have_their_places_in_the_recording_and_end_with_it(system):
    field = system.output
    zero, said = field.times.start, field.tokenizer.encode(" beta")
    tokens = [zero + 5, *said, zero + 20, zero + 20, *said, zero + 90, field.tokenizer.eos]
    best = system.empty_output()
    best = type(best)(tokens, -0.5, {"translation": "beta beta"})
    of = {"start": 10.0, "duration": 1.0}
    found = system.timed_texts(Part(of, [best]))
    assert [(one.start, one.end, one.texts, one.tokens) for one in found] == [
        (pytest.approx(10.1), pytest.approx(10.4), {"translation": "beta"}, said),
        (pytest.approx(10.4), 11.0, {"translation": "beta"}, said),
    ]
    [silent] = system.timed_texts(Part(of, [system.empty_output()], silent=True))
    assert (silent.start, silent.end, silent.texts) == (10.0, 11.0, {"translation": ""})


# -- searches ---------------------------------------------------------------------------------------------------------


def test_the_rules_are_theirs(system, reader):
    """For random outputs, and scores of which no, some or most are times' in turn."""
    first, end = system.output.times.start, system.output.tokenizer.eos
    size = first + 101
    config = transformers.GenerationConfig(eos_token_id=end, max_initial_timestamp_index=50)
    config.no_timestamps_token_id = first - 1
    theirs = transformers.WhisperTimeStampLogitsProcessor(config, begin_index=3)
    rules = TimestampRules(first=first, times=101, whole=False)
    generator = torch.Generator().manual_seed(4)
    rows, beams, kinds = 5, 3, set[str]()
    start = torch.full((rows, 3), 1)
    ban = rules.begin(Opening(Batch({}), start, beams, end, 0))
    so_far = torch.ones(rows * beams, 3, dtype=torch.int64)
    for step in range(14):
        scores = 3 * torch.randn(rows * beams, size, generator=generator)
        scores[:, first:] += torch.tensor([-4.0, 1.0, 4.0])[step % 3]
        scores = scores.log_softmax(-1)
        ours = scores.view(rows, beams, size).clone()
        ban.apply(ours)
        expected = theirs(so_far, scores).view(rows, beams, size)
        torch.testing.assert_close(ours, expected)
        again = scores.view(rows * beams, 1, size).clone()  # what was written before may be in the start
        rules.begin(Opening(Batch({}), so_far, 1, end, 0)).apply(again)
        torch.testing.assert_close(again.view(rows, beams, size), expected)
        chosen = ours.softmax(-1).flatten(0, 1).multinomial(1, generator=generator)[:, 0]
        kinds |= {"time" if id >= first else "end" if id == end else "text" for id in chosen.tolist()}
        chosen[chosen == end] = 4
        index = torch.randint(rows * beams, (rows * beams,), generator=generator) if step % 2 else None
        picked = so_far if index is None else so_far[index]
        tokens = chosen if index is None else chosen[index]
        so_far = torch.cat([picked, tokens[:, None]], dim=1)
        ban.advance(index, tokens.view(rows, beams))
    assert {"time", "text"} <= kinds


@pytest.mark.parametrize(("before", "may_end"), [([0], True), ([0, "a", 5], True), ([0, "a", 5, 6], False)])
def test_no_output_ends_behind_the_start_of_a_further_segment(before, may_end):
    first, end, size = 20, 10, 30
    for whole in (True, False):
        ban = TimestampRules(first=first, times=10, whole=whole).begin(
            Opening(Batch({}), torch.ones(1, 1, dtype=torch.int64), 1, end, 0)
        )
        for token in before:
            ban.advance(None, torch.tensor([[3 if token == "a" else first + token]]))
        scores = torch.zeros(1, 1, size)
        scores[..., first:] = -9.0
        ban.apply(scores)
        assert (scores[0, 0, end] == 0.0) == (may_end or not whole)
        scores = torch.full((1, 1, size), float("-inf"))
        scores[..., end] = -1.0
        ban.apply(scores)  # at its longest, an output ends
        assert scores[0, 0, end] == -1.0


@pytest.mark.parametrize("beams", [1, 5])
def test_searches_find_what_generate_finds(beams, system, reader, tmp_path, files, compared: Compared):
    compared.named("transformers", "Whisper with times")
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path / "theirs").eval()
    rules = Rules(maximum_length=NEW - 1, minimum_length=0, forced_free=True)
    search = GreedySearch(rules=rules) if beams == 1 else BeamSearch(beam=beams, rules=rules)
    spoken = system.for_task(writes="transcript")
    free = TimestampRules(**spoken.bans[-1].arguments | {"whole": False})
    spoken = type(spoken)(**spoken.arguments | {"bans": [*spoken.bans[:-1], free]}).eval()
    found = spoken.hypotheses(files, search=search, source_language="fr", batch_size=3, keep_silence=True)
    settings = theirs.generation_config
    settings.max_initial_timestamp_index = 50
    settings.no_timestamps_token_id = spoken.output.without
    never = [*settings.suppress_tokens, *range(spoken.output.times.stop, theirs.config.vocab_size)]
    start = reader.encode(START, add_special_tokens=False)
    processors = transformers.LogitsProcessorList(
        [
            transformers.SuppressTokensAtBeginLogitsProcessor(settings.begin_suppress_tokens, begin_index=len(start)),
            transformers.SuppressTokensLogitsProcessor(never),
            transformers.WhisperTimeStampLogitsProcessor(settings, begin_index=len(start)),
        ]
    )
    end = reader.eos_token_id
    kinds = set[str]()
    settings.suppress_tokens = settings.begin_suppress_tokens = None
    for file, ours in zip(files, found, strict=True):
        expected = transformers.GenerationMixin.generate(
            theirs, features_of(transformers.WhisperFeatureExtractor, tmp_path / "theirs", file), num_beams=beams,
            decoder_input_ids=torch.tensor([start]), max_new_tokens=NEW, forced_eos_token_id=end, do_sample=False,
            logits_processor=processors, **({"early_stopping": True} if beams > 1 else {}),
        )[0].tolist()[len(start) :]  # fmt: skip
        tokens = [*(token for token in expected if token != end), end]
        compared.same("hypotheses", [ours[0].tokens], [tokens])
        kinds |= {"time" if token in spoken.output.times else "text" for token in tokens[1:-1]}
        assert tokens[0] in spoken.output.times
    assert kinds == {"time", "text"}


# -- systems ----------------------------------------------------------------------------------------------------------


def test_times_come_back_from_an_export(system, files, tmp_path):
    """Trained, exported, and imported again: subtitles have the times that the trained model writes."""
    assert isinstance(load(folder=str(tmp_path / "ours"), writes="transcript"), TimestampSystem)
    trained = test_like.trained(tmp_path / "ours", 0.02)
    export_like(tmp_path / "ours", tmp_path / "theirs", tmp_path / "exported")
    import_model(tmp_path / "exported", tmp_path / "back", times=True).check()
    given = {"source_language": "fr", "keep_silence": True, "beam": 2}
    timed = partial(System.timed, inputs=files, **given)
    found, back = timed(trained.eval()), timed(System.load(tmp_path / "back"))
    shown = [[[(one.start, one.end, one.texts) for one in segments] for segments in one] for one in (found, back)]
    assert shown[0] == shown[1] and any(len(segments) > 1 for segments in found)
    for segments in found:
        assert all(0 <= one.start <= one.end <= 2 for one in segments)


def test_what_has_no_times_is_refused(tmp_path, system):
    whisper.saved("small", tmp_path / "few")
    why = r"2.00 s: the tokenizer has times from 0 to 0.0[468] s"
    refuses(DataError, why, import_model, tmp_path / "few", tmp_path / "out", times=True)
    refuses(UsageError, "--times is for Whisper in", import_model, tmp_path, tmp_path / "out", times=True)
    text = System.load(small.GOLDEN)
    refuses(UsageError, "times are written by Whisper, not by a Translator", with_times, system=text)
    refuses(UsageError, "outputs begin with <notimestamps>", TimestampedText, field=text.output)
    assert with_times(system=system) is system
    beyond = row(segments=[{"start": 0.0, "end": 2.5, "source_text": "alpha", "target_text": "one"}])
    refuses(DataError, "2.50 s: the tokenizer has times from 0 to 2.0[0-9] s", ids, system.output, beyond)
