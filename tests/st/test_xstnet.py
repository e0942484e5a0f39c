"""One model for three tasks: its losses are those of each task alone, and symbols decide what is read and written."""

import math
from pathlib import Path

import pytest
import soundfile
import torch
from typer.testing import CliRunner

from dragoman import BeamSearch, GreedySearch, Rules, System, load
from dragoman.cli.main import app
from dragoman.shared.batch import Batch
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.described import build, describe
from dragoman.shared.nn.fbank import Fbank
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import Conv1dSubsampler
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective, TaskObjective
from dragoman.shared.padded import Padded
from dragoman.st.xstnet import Tagged
from tests import small

WIDTH = 16


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(["abc", "bca", "cab", "aabb"] * 9, size=262)


def subsampler():
    return Conv1dSubsampler(inputs=80, channels=8, width=WIDTH, kernels=[3, 3])


def make_system(tokenizer):
    torch.manual_seed(1)
    source = small.embedding(tokenizer)
    target = small.embedding(tokenizer, shared_with=source)
    layer = small.layer()
    speech = small.speech_embedding(bins=80, subsampler=Tagged(subsampler=subsampler()), normalisation=None)
    parts = {"embeddings": {"speech": speech, "source": source}, "encoder": Encoder(layer=layer, layers=1)}
    model = small.translator(tokenizer, target_embedding=target, **parts)
    transcript = small.text(tokenizer)
    options = {"reads": ["speech"], "other_outputs": {"transcript": transcript}}
    return small.system(tokenizer, model, inputs={"speech": SpeechField(), "source": transcript}, **options)


def triples(tokenizer, stream="speech"):
    generator = torch.Generator().manual_seed(1)
    speech = Padded(torch.randn(3, 8000, generator=generator), torch.tensor([8000, 5000, 400]))
    fields = {"speech": speech}
    for name, code, lengths in (("transcript", "en", (4, 6, 2)), ("target", "de", (5, 3, 3))):
        rows = [torch.randint(tokenizer.pieces, (length,), generator=generator) for length in lengths]
        tag, end = torch.tensor([tokenizer.id(f"<{code}>")]), torch.tensor([tokenizer.eos])
        fields[name] = Padded.from_sequences([torch.cat([tag, row, end]) for row in rows], padding=tokenizer.pad)
    fields["source"] = fields["transcript"]
    codes = {"source": ["en"] * 3, "target": ["de"] * 3}
    return Batch(fields, codes, ["0", "1", "2"], stream)


PARTS = {
    "st.": {"source": "speech", "target_field": "target"},
    "asr.": {"source": "speech", "target_field": "transcript"},
    "mt.": {"source": "source", "target_field": "target"},
}


def test_the_three_losses_are_those_of_each_task_alone(tokenizer):
    system, batch = make_system(tokenizer), triples(tokenizer)
    parts = {prefix: CrossEntropy(prefix=prefix, **options) for prefix, options in PARTS.items()}
    objective = TaskObjective(system=system, tasks={"speech": list(parts.values()), "text": [parts["mt."]]})
    loss = objective(batch)
    loss.check(objective.counts(batch))
    loss.total(objective.counts(batch)).backward()
    together = {name: parameter.grad.clone() for name, parameter in objective.named_parameters()}
    objective.zero_grad()
    for prefix, options in PARTS.items():
        part = CrossEntropy(target_field=options["target_field"])
        alone = EncoderDecoderObjective(system=system, parts=[part], source_field=options["source"])(batch)
        torch.testing.assert_close(loss.parts[f"{prefix}cross_entropy"].sum, alone.parts["cross_entropy"].sum)
        alone.total().backward()
    for name, parameter in objective.named_parameters():
        torch.testing.assert_close(together[name], parameter.grad, atol=1e-5, rtol=1e-4)
    assert set(objective(triples(tokenizer, "text")).parts) == {"mt.cross_entropy", "mt.nll", "mt.accuracy"}


def test_the_symbol_stands_before_the_frames_and_positions_are_added_to_both():
    torch.manual_seed(1)
    tagged, positions = Tagged(subsampler=subsampler()), SinusoidalPositions(width=WIDTH)
    features = Padded(torch.randn(2, 21, 80), torch.tensor([21, 9]))
    plain, x = tagged.subsampler(features), tagged(features)
    assert x.lengths.tolist() == [7, 4] == tagged.lengths(features.lengths).tolist()
    for row, (mine, theirs) in enumerate(zip(x.rows(), plain.rows(), strict=True)):
        assert torch.equal(mine[0], tagged.tag), row
        assert torch.equal(mine[1:], theirs), row
    embedding = SpeechEmbedding(frontend=Fbank(bins=80), subsampler=tagged, positions=positions, dropout=0.0)
    embedded = embedding.embed(features).values
    place = positions(7, like=embedded)
    torch.testing.assert_close(embedded[1, 0], tagged.tag * math.sqrt(WIDTH) + place[0])
    torch.testing.assert_close(embedded[1, 1], plain.values[1, 0] * math.sqrt(WIDTH) + place[1])
    x.values.sum().backward()
    assert torch.equal(tagged.tag.grad, torch.full((WIDTH,), 2.0))  # once a row
    assert {"tag"} < set(dict(build(describe(tagged)).named_parameters()))
    silence = Padded(torch.zeros(1, 8000), torch.tensor([8000]))
    assert torch.equal(embedding.lengths(silence.lengths), embedding(silence).lengths)


def test_one_folder_translates_speech_recognises_and_translates_text(tokenizer, tmp_path):
    make_system(tokenizer).save(tmp_path / "model")
    system, batch = System.load(tmp_path / "model"), triples(tokenizer)
    search = GreedySearch(rules=Rules(maximum_length=6))
    tasks = {
        ("speech", "translation", "<de>"): system,
        ("speech", "transcript", "<en>"): system.for_task(writes="transcript"),
        ("source", "translation", "<de>"): system.for_task(reads=["source"]),
    }
    found = {}
    for (field, name, tag), task in tasks.items():
        seen = Batch({one: batch[one] for one in task.reads}, batch.languages, batch.ids)
        assert list(seen.fields) == [field]
        found[field, name] = [(best[0].tokens, best[0].score) for best in task.translate_batch(seen, search)]
        prefix = Padded(torch.full((3, 1), tokenizer.id(tag)), torch.ones(3, dtype=torch.int64))
        wanted = search.search(system.model, seen, prefix=prefix, end=tokenizer.eos, padding=tokenizer.pad)
        assert found[field, name] == [(best[0].tokens, best[0].score) for best in wanted]
        assert task.output_name == name
    assert len({str(outputs) for outputs in found.values()}) == 3


def test_the_command_and_python_do_all_three_with_one_folder(tokenizer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_system(tokenizer).save(tmp_path / "model")
    soundfile.write("talk.wav", torch.randn(16_000, generator=torch.Generator().manual_seed(3)).mul(0.1), 16_000)
    Path("lines.txt").write_text("abc\ncab\n", encoding="utf-8")
    found = {}
    for task, file, inputs in (
        ({}, "talk.wav", ["talk.wav"]),
        ({"writes": "transcript"}, "talk.wav", ["talk.wav"]),
        ({"reads": ["source"]}, "lines.txt", ["abc", "cab"]),
    ):
        options = [word for name, value in task.items() for word in (f"--{name}", "".join(value))]
        sound = ["--keep-silence"] if file == "talk.wav" else []
        command = ["translate", "model", file, "--device", "cpu", "--maximum-length-extra", "6", *options, *sound]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        system = load("model", device="cpu", **task)
        silence = {"keep_silence": True} if sound else {}
        texts = system.translate(inputs, search=BeamSearch(rules=Rules(maximum_length_extra=6)), **silence)
        lines = [line.translate({9: " ", 10: " ", 13: " "}) for line in texts]
        assert result.stdout == "".join(f"{file}\t{line}\n" if sound else f"{line}\n" for line in lines)
        found[str(task)] = texts
    assert len({str(texts) for texts in found.values()}) == 3
