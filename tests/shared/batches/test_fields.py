"""Fields against the tokenizer, soundfile and hand-made rows; the sidecar of token counts."""

from __future__ import annotations

import copy
import os
import pickle
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import soundfile
import torch
import torchaudio

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.batches import lengths as lengths_module
from dragoman.shared.batches.fields import TextField, blank_rows, reading
from dragoman.shared.batches.separated import SeparatedText
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.described import build, describe
from dragoman.shared.text.normalise import Lowercase, RemoveEvents, RemovePunctuation
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small
from tests.small import refuses

RNG = np.random.default_rng(0)
ROW = {"id": "r1", "target_text": "Guten Tag", "target_language": "de", "source_text": "hi", "source_language": "en"}


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    return small.tokenizer([f"Guten Tag, hello world {i}" for i in range(50)], kind="bpe", size=320)


def symbols(tokenizer: SentencePieceTokenizer, *names: str) -> list[int]:
    return [tokenizer.id(name) for name in names]


def test_text_stands_between_its_symbols(tokenizer: SentencePieceTokenizer) -> None:
    field = TextField(column="target_text", tokenizer=tokenizer)
    ids = field(ROW, RNG)
    expected = symbols(tokenizer, "<de>") + tokenizer.encode("Guten Tag") + symbols(tokenizer, "</s>")
    assert ids.dtype == torch.int64 and ids.tolist() == expected
    assert field.length(ROW) == len(expected)
    assert field.prefix_ids("de") == symbols(tokenizer, "<de>") and field.prefix_ids("en") == symbols(tokenizer, "<en>")
    assert (field.side, field.overhead, field.padding) == ("target", 2, tokenizer.pad)


def test_a_long_text_is_read_as_far_as_it_is_to_be(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    """Between its symbols, by a row, and by the lengths of rows and of a manifest; a model folder says how far."""
    rows = [ROW | {"id": f"r{n}", "target_text": "Guten Tag " * n} for n in (1, 2, 9)]
    manifest = Manifest.write(tmp_path / "m.arrow", [*rows, ROW | {"id": "r", "target_text": None}])
    whole = TextField(tokenizer=tokenizer)
    all_ids = [whole(row, RNG).tolist() for row in rows]
    cut = len(all_ids[1]) - 2
    field = TextField(tokenizer=tokenizer, maximum_pieces=cut)
    assert f"'maximum_pieces': {cut}" in str(describe(field))
    ids = [field(row, RNG).tolist() for row in rows]
    assert ids == [all_ids[0], all_ids[1], [*all_ids[2][: cut + 1], tokenizer.eos]] and cut < len(all_ids[2]) - 2
    assert field.lengths(rows).tolist() == [len(one) for one in ids] == [field.length(row) for row in rows]
    assert whole.lengths(manifest).tolist() == [*map(len, all_ids), -1]  # counts that are kept are those of whole texts
    assert field.lengths(manifest).tolist() == [*map(len, ids), -1]


def test_languages_in_symbols(tokenizer: SentencePieceTokenizer) -> None:
    prefix = ["<{source_language}>", "<{target_language}>", "<sep>"]
    field = TextField(column="source_text", tokenizer=tokenizer, prefix=prefix, suffix=[])
    assert field(ROW, RNG).tolist() == symbols(tokenizer, "<en>", "<de>", "<sep>") + tokenizer.encode("hi")
    other = TextField(column="summary", language_column="target_language", tokenizer=tokenizer, suffix=["<{language}>"])
    assert other(ROW | {"summary": "hi"}, RNG)[-1] == tokenizer.id("<de>") and other.side == "target"


def test_typed_tags_do_not_become_tags(tokenizer: SentencePieceTokenizer) -> None:
    field = TextField(column="target_text", tokenizer=tokenizer)
    inner = field(ROW | {"target_text": "<en> </s> <pad> {language}"}, RNG)[1:-1]
    assert int(inner.max()) < tokenizer.pieces


def test_text_errors(tokenizer: SentencePieceTokenizer) -> None:
    field = TextField(column="target_text", tokenizer=tokenizer)
    for broken, message in [
        ({"target_text": None}, "'r1' has no target_text"),
        ({"target_language": None}, "<{language}>.*needs a language"),
        ({"target_language": "fr"}, "<fr>"),
    ]:
        refuses(DataError, message, field, ROW | broken, RNG)
    refuses(DataError, "<nope>", TextField, tokenizer=tokenizer, prefix=["<nope>"])
    refuses(UsageError, "<{lang}>", TextField, tokenizer=tokenizer, prefix=["<{lang}>"])
    refuses(UsageError, "summary", TextField, tokenizer=tokenizer, column="summary")


def test_normalizers() -> None:
    assert Lowercase()("Übung ISTANBUL", "de") == "übung istanbul"
    assert Lowercase()("İSTANBUL ISI", "tr") == "istanbul ısı"
    text = "“It’s well-known,” she said: 'tis 3.5 — no? 你好。"
    assert RemovePunctuation()(text, "en") == "It's well known she said tis 3 5 no 你好"
    plain = RemovePunctuation(keep="")(text, "en")
    assert not any(unicodedata.category(character).startswith("P") for character in plain)
    events = "(Applause) Thank you. (Laughter) I saw (in 1999) it (as he said) and [Music]"
    assert RemoveEvents()(events, "en") == "Thank you. I saw (in 1999) it (as he said) and"
    assert RemoveEvents(words=1)("a (Loud music) b (Music)c", "en") == "a (Loud music) b c"
    refuses(UsageError, "a", RemovePunctuation, keep="a")


def test_normalised_field_is_described(tokenizer: SentencePieceTokenizer) -> None:
    field = TextField(column="target_text", tokenizer=tokenizer, normalizers=[RemoveEvents(), Lowercase()])
    row = ROW | {"target_text": "(Applause) Guten Tag"}
    assert field(row, RNG)[1:-1].tolist() == tokenizer.encode("guten tag")
    plain = TextField(column="target_text", tokenizer=tokenizer)
    assert field.fingerprint != plain.fingerprint == tokenizer.fingerprint and len(field.fingerprint) == 16
    description = describe(field, assets := {})
    rebuilt = build(description, next(iter(assets.values())).parent)
    for other in (rebuilt, pickle.loads(pickle.dumps(field)), copy.deepcopy(field)):
        assert other(row, RNG).tolist() == field(row, RNG).tolist() and other.fingerprint == field.fingerprint


def rows(count: int) -> list[dict]:
    texts = [None if i % 7 == 3 else "Hello world, " * (i % 5) for i in range(count)]
    return [{"id": str(i), "target_text": text, "target_language": "de"} for i, text in enumerate(texts)]


def test_lengths_and_their_sidecar(tmp_path: Path, tokenizer: SentencePieceTokenizer, monkeypatch) -> None:  # noqa: ANN001
    monkeypatch.setattr(lengths_module, "SMALLEST_KEPT", 10)
    field = TextField(column="target_text", tokenizer=tokenizer)
    data = rows(40)
    expected = [-1 if row["target_text"] is None else len(field(row, RNG)) for row in data]
    manifest = Manifest.write(tmp_path / "m.arrow", data)
    assert field.lengths(data).tolist() == field.lengths(manifest).tolist() == expected
    sidecars = [path for path in tmp_path.iterdir() if "lengths" in path.name]
    assert len(sidecars) == 1 and tokenizer.fingerprint in sidecars[0].name

    counted: list[int] = []
    original = SentencePieceTokenizer.lengths
    monkeypatch.setattr(SentencePieceTokenizer, "lengths", lambda s, t: counted.append(len(t)) or original(s, t))
    longer = TextField(column="target_text", tokenizer=tokenizer, prefix=["<s>", "<de>"])
    assert longer.lengths(manifest).tolist() == [-1 if length < 0 else length + 1 for length in expected]
    assert not counted  # symbols do not count anew
    part = manifest.select([5, 3, 1])
    assert field.lengths(part).tolist() == [expected[5], expected[3], expected[1]] and counted == [3]
    lowered = TextField(column="target_text", tokenizer=tokenizer, normalizers=[Lowercase()])
    lowered.lengths(manifest)
    assert counted == [3, 40]  # another text is
    Manifest.write(tmp_path / "m.arrow", [*data, ROW])
    assert field.lengths(Manifest.open(tmp_path / "m.arrow")).tolist() == [*expected, field.length(ROW)]
    sidecars[0].write_bytes(sidecars[0].read_bytes()[:100])
    Manifest.write(tmp_path / "m.arrow", data)
    assert field.lengths(Manifest.open(tmp_path / "m.arrow")).tolist() == expected  # a broken one is made again


def test_read_only_folders(tmp_path: Path, tokenizer: SentencePieceTokenizer, monkeypatch, caplog) -> None:  # noqa: ANN001
    monkeypatch.setattr(lengths_module, "SMALLEST_KEPT", 10)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    field = TextField(column="target_text", tokenizer=tokenizer)
    (tmp_path / "corpus").mkdir()
    manifest = Manifest.write(tmp_path / "corpus" / "m.arrow", rows(20))
    expected = field.lengths(manifest).tolist()
    assert "read-only" in caplog.text and len(list((tmp_path / "corpus").iterdir())) == 1
    assert field.lengths(manifest, tmp_path / "kept").tolist() == expected
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert field.lengths(manifest, tmp_path / "kept").tolist() == expected


def test_text_that_cannot_be_tokenised_names_its_manifest(tmp_path: Path, tokenizer: SentencePieceTokenizer) -> None:
    manifest = Manifest.write(tmp_path / "m.arrow", [ROW])
    field = TextField(column="duration", language_column="target_language", tokenizer=tokenizer)
    refuses(DataError, r"m\.arrow.*'duration' holds numbers", field.lengths, manifest)


@pytest.fixture
def recording(tmp_path: Path) -> dict:
    waveform = 0.5 * np.sin(2 * np.pi * 440 * np.arange(32000) / 16000)
    soundfile.write(tmp_path / "a.wav", waveform.astype(np.float32), 16000, subtype="FLOAT")
    return {"id": "r", "audio": str(tmp_path / "a.wav"), "start": 0.25, "duration": 1.0001}


def test_speech(recording: dict) -> None:
    waveform = SpeechField()(recording, RNG)
    file, _ = soundfile.read(recording["audio"], dtype="float32")
    assert waveform.dtype == torch.float32
    torch.testing.assert_close(waveform, torch.from_numpy(file[4000:20002]))
    assert SpeechField().length(recording) == len(waveform) == 16002
    whole = {"id": "w", "audio": recording["audio"], "start": None, "duration": None}
    assert len(SpeechField()(whole, RNG)) == 32000


@pytest.mark.parametrize("speed", [0.9, 1.1, 0.5, 1.37])
def test_speed_perturbation(recording: dict, speed: float) -> None:
    field = SpeechField(speeds=[speed])
    faster = field(recording, RNG)
    plain = SpeechField()(recording, RNG)
    expected, _ = torchaudio.functional.speed(plain, 16000, speed)
    torch.testing.assert_close(faster, expected, atol=2e-3, rtol=0)
    assert abs(len(faster) - len(plain) / speed) < 1 and field.length(recording) == len(faster)
    spectrum = torch.fft.rfft(faster * torch.hann_window(len(faster))).abs()
    assert abs(float(spectrum.argmax()) * 16000 / len(faster) - 440 * speed) < 2  # Hz: the pitch moves along
    assert len(field.evaluating()(recording, RNG)) == len(plain)


def test_speeds_are_drawn_from_the_generator(recording: dict) -> None:
    field = SpeechField(speeds=[0.9, 1.0, 1.1])
    drawn = [len(field(recording, np.random.default_rng(seed))) for seed in range(30)]
    assert drawn == [len(field(recording, np.random.default_rng(seed))) for seed in range(30)]
    assert len(set(drawn)) == 3 and max(drawn) == field.length(recording)


def test_speech_lengths(tmp_path: Path, recording: dict) -> None:
    field = SpeechField(speeds=[0.9, 1.0])
    data = [recording, {"id": "none"}, recording | {"id": "2", "duration": 0.5}]
    manifest = Manifest.write(tmp_path / "m.arrow", data)
    expected = [field.length(recording), -1, field.length(data[2])]
    assert field.lengths(manifest).tolist() == field.lengths(data).tolist() == expected
    lost = Manifest.write(tmp_path / "n.arrow", [recording, {"id": "lost", "audio": "x.wav"}])
    refuses(DataError, "n.arrow.*'lost'.*no duration", field.lengths, lost)


def test_speech_errors(recording: dict) -> None:
    refuses(DataError, "'r' has no audio", lambda: SpeechField()(recording | {"audio": None}, RNG))
    refuses(DataError, "gone.wav", lambda: SpeechField()(recording | {"audio": "gone.wav"}, RNG))
    for speeds in ([0.3], [3], [1.005], []):
        with pytest.raises(UsageError):
            SpeechField(speeds=speeds)


@pytest.mark.parametrize(
    "column",
    [["x"] * 40, [None] + [3] * 39, [1.5] * 40, [[1]] * 40, [-7] * 40, [1] * 39],
    ids=lambda column: str(column[0]),
)
def test_a_sidecar_of_something_else_is_not_believed(tmp_path, tokenizer, monkeypatch, column) -> None:  # noqa: ANN001
    monkeypatch.setattr(lengths_module, "SMALLEST_KEPT", 10)
    field = TextField(column="target_text", tokenizer=tokenizer)
    manifest = Manifest.write(tmp_path / "m.arrow", rows(40))
    expected = field.lengths(manifest).tolist()
    (sidecar,) = (path for path in tmp_path.iterdir() if "lengths" in path.name)
    table = pa.table({"length": column})
    with pa.ipc.new_file(str(sidecar), table.schema) as writer:
        writer.write_table(table)
    assert field.lengths(manifest).tolist() == expected


@pytest.mark.parametrize("duration", [1e30, -1.0, 0.0, float("inf")])
def test_a_duration_that_no_recording_has(tmp_path, duration) -> None:  # noqa: ANN001
    row = {"id": "long", "audio": "a.wav", "duration": duration}
    manifest = Manifest.write(tmp_path / "m.arrow", [row])
    refuses(DataError, r"m\.arrow: row 'long' has a duration of", SpeechField().lengths, manifest)


def test_rows_without_anything_to_be_seen_are_blank(tokenizer: SentencePieceTokenizer) -> None:
    field = TextField(column="source_text", tokenizer=tokenizer)
    texts = ["hi", "", "  ", "\u200b\u200e", "\x07", None, "."]
    rows = [ROW | {"source_text": text} for text in texts]
    assert blank_rows({"source": field}, rows).tolist() == [False, True, True, True, True, False, False]

    class Counted:
        overhead = 2

        def lengths(self, rows):
            return np.array([2, 3, 1, -1, 0, 9, 9])

    assert blank_rows({"speech": Counted()}, rows).tolist() == [True, False, True, False, True, False, False]
    both = blank_rows({"speech": Counted(), "source": field}, rows)
    assert both.tolist() == [True, True, True, True, True, False, False] and blank_rows({}, rows).sum() == 0


def test_a_field_of_another_column_is_as_the_first_in_all_else(tokenizer: SentencePieceTokenizer) -> None:
    field = TextField(column="target_text", tokenizer=tokenizer, prefix=["<{language}>"], suffix=["<sep>", "</s>"])
    other = reading(field=field, column="source_text")
    assert (other.column, other.language_column, other.side) == ("source_text", "source_language", "source")
    assert other.prefix == field.prefix and other.suffix == field.suffix and other.tokenizer is tokenizer
    assert other(ROW, RNG).tolist() == other.framed(tokenizer.encode("hi"), "en")
    assert other.inner([7, 1, 2, 3, 8, 9]) == [1, 2, 3]
    assert other.evaluating() is other and other.first_text() == (other, tokenizer.eos)
    assert field.reads_like(TextField(**field.arguments | {"column": "source_text"}))
    assert not field.reads_like(TextField(column="target_text", tokenizer=tokenizer, suffix=["</s>"]))


def test_symbols_of_a_row_change_sides_with_the_column(tokenizer: SentencePieceTokenizer) -> None:
    """Symbols of fairseq's multilingual models name the languages of a row: here from English to German."""
    around = {"prefix": ["<{source_language}>"], "suffix": ["<{target_language}>", "</s>"]}
    field = TextField(column="source_text", tokenizer=tokenizer, **around)
    of_target, same = (reading(field=field, column=column) for column in ("target_text", "source_text"))
    for one, ids in ((of_target, ["<de>", "<en>"]), (same, ["<en>", "<de>"]), (field, ["<en>", "<de>"])):
        found = one(ROW, RNG).tolist()
        assert [found[0], found[-2], found[-1]] == symbols(tokenizer, *ids, "</s>")
    assert reading(field=of_target, column="source_text").arguments == same.arguments


class Within(TextField):
    """A text with a field inside it that is no text."""

    def __init__(self, *, field: str, tokenizer: SentencePieceTokenizer) -> None:
        super().__init__(column="target_text", tokenizer=tokenizer)


class Column(TextField):
    """A text with no other argument than its column."""

    def __init__(self, *, column: str, tokenizer: SentencePieceTokenizer) -> None:
        super().__init__(column=column, tokenizer=tokenizer)


def test_what_is_made_of_another_field_reads_that_ones_column(tokenizer: SentencePieceTokenizer) -> None:
    field = TextField(column="target_text", tokenizer=tokenizer, prefix=["<{source_language}>"])
    other = reading(field=SeparatedText(field=field, separator="<sep>", maximum=99), column="source_text")
    assert isinstance(other, SeparatedText)
    assert (other.column, other.side, other.maximum) == ("source_text", "source", 99)
    hi, (de, sep, end) = tokenizer.encode("hi"), symbols(tokenizer, "<de>", "<sep>", "</s>")
    assert other(ROW | {"source_text": "hi\nhi"}, RNG).tolist() == [de, *hi, sep, *hi, end]
    assert reading(field=Column(column="target_text", tokenizer=tokenizer), column="source_text").side == "source"
    with pytest.raises(UsageError, match="^a Within reads target_text and cannot read source_text instead$"):
        reading(field=Within(field="hi", tokenizer=tokenizer), column="source_text")


def test_a_symbol_that_needs_a_language_says_so(tokenizer: SentencePieceTokenizer) -> None:
    field = TextField(column="target_text", tokenizer=tokenizer, prefix=["<{source_language}>"])
    said = "^symbol '<{source_language}>' needs a language, which the row lacks$"
    refuses(DataError, said, field.prefix_ids, "de")
    assert field.prefix_ids("de", "en") == symbols(tokenizer, "<en>")
