"""Whole talks that are heard: OmniSTEval reads our logs and finds our latencies; simulstream runs our processor."""

import json
import logging
import random
import re
import sys
from types import SimpleNamespace

import pytest
import soundfile
import yaml

from dragoman import UsageError
from dragoman.commands.simulstream_processor import DragomanProcessor
from dragoman.shared.evaluation.results import read
from dragoman.simultaneous.latency import Timed, latencies
from dragoman.simultaneous.listening import Emission
from tests.dragoman.simultaneous.test_simulating import hears, phase, talks, workspace  # noqa: F401 - a fixture
from tests.small import refuses

pytestmark = pytest.mark.parity

NAMES = ("al", "laal", "dal", "ap", "yaal")


def segments(seed: int) -> list[Timed]:
    """Return lines of a talk with words that come too early, in time, late, and after its end."""
    chosen = random.Random(seed)
    found = []
    for _ in range(30):
        length, end = chosen.uniform(500, 4000), chosen.uniform(500, 9000)
        delays = sorted(chosen.uniform(-800, 1.5 * length) for _ in range(chosen.randint(0, 12)))
        elapsed = [delay + chosen.uniform(0, 300) for delay in delays]
        reference = " ".join("w" * chosen.randint(1, 5) for _ in range(chosen.randint(1, 12)))
        found.append(Timed("x " * len(delays), delays, elapsed, reference, "talk.wav", length, max(end, length)))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_latencies_of_talks_are_omnistevals(seed):
    scoring = pytest.importorskip("omnisteval.scoring")
    data = pytest.importorskip("omnisteval.data")
    ours = segments(seed)
    theirs = [
        data.Instance(
            one.prediction,
            one.reference,
            source_length=one.source_length,
            emission_cu=one.delays,
            emission_ca=one.elapsed,
            time_to_recording_end=one.end,
        )
        for one in ours
    ]
    wanted, _, _ = scoring.evaluate_instances(theirs, compute_quality=False)
    found = {score.name: score.value for score in latencies(ours, "de", prefix="long_")}
    assert {name: found[f"long_{name}"] for name in NAMES} == pytest.approx({n: wanted[f"long_{n}"] for n in NAMES})
    assert found["long_yaal_ca"] == pytest.approx(wanted["ca_long_yaal"])
    assert found["long_laal_ca"] == pytest.approx(wanted["ca_long_laal"])


def test_omnisteval_reads_the_log_of_talks(speech_model, talks, tmp_path, monkeypatch, capsys):  # noqa: F811
    """Each line of the talks is all of a reference but its last word: both programs cut alike."""
    cli = pytest.importorskip("omnisteval.cli")
    hears(monkeypatch)
    place = workspace(tmp_path)
    phase(speech_model, talks, talks=True).run(place)
    log = place.folder / "en-de.talks.instances.log"
    lines = [f"eins x {number}" for number in range(6)]
    (tmp_path / "references.txt").write_text("".join(f"{line}\n" for line in lines))
    given = {"--speech_segmentation": place.folder / "en-de.talks.segments.json", "--hypothesis_file": log}
    given |= {"--ref_sentences_file": tmp_path / "references.txt", "--output_folder": tmp_path / "theirs"}
    options = [str(word) for pair in given.items() for word in pair]
    monkeypatch.setattr(sys, "argv", ["omnisteval", "longform", "--word_level", *options])
    cli.main()
    cut = [json.loads(line) for line in (tmp_path / "theirs" / "instances.resegmented.jsonl").read_text().splitlines()]
    assert [one["prediction"] for one in cut] == lines
    by_name = {row["metric"]: row["value"] for row in read(place.output / "results.jsonl")}
    printed = capsys.readouterr().out
    for name in NAMES:
        [theirs] = re.findall(rf"Long{name.upper()} \(CU\) +([\d.]+)", printed)
        assert by_name[f"long_{name}"] == pytest.approx(float(theirs), abs=0.01), name


@pytest.mark.parametrize("policy", ["agreement", "wait-k"])
def test_simulstream_writes_what_stream_writes(dragoman, speech_model, hum, tmp_path, monkeypatch, caplog, policy):
    inference = pytest.importorskip("simulstream.inference")
    readers = pytest.importorskip("simulstream.metrics.readers")
    soundfile.write(tmp_path / "talk.wav", hum, 16000)
    (tmp_path / "files.txt").write_text(f"{tmp_path / 'talk.wav'}\n")
    kind = "dragoman.commands.simulstream_processor.DragomanProcessor"
    config = {"type": kind, "model": str(speech_model), "speech_chunk_size": 0.25, "policy": policy, "device": "cpu"}
    config |= {"speech_detector": "levels", "maximum_length_extra": 6, "detokenizer_type": "simuleval"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config | {"latency_unit": "word"}))
    log = tmp_path / "metrics.json"
    words = ["--speech-processor-config", tmp_path / "config.yaml", "--wav-list-file", tmp_path / "files.txt"]
    words += ["--metrics-log-file", log, "--src-lang", "en", "--tgt-lang", "de"]
    monkeypatch.setattr(sys, "argv", ["simulstream_inference", *map(str, words)])
    with caplog.at_level(logging.INFO, logger="fbk_fairseq.simultaneous.metrics"):  # its log of metrics
        inference.cli_main()
    reader = readers.LogReader(inference.yaml_config(tmp_path / "config.yaml"), log)
    [found] = reader.final_outputs_and_latencies().values()
    options = ["--maximum-length-extra", "6", "--device", "cpu", "--speech-detector", "levels", "--chunk", "0.25"]
    code, line, messages = dragoman(
        "stream", speech_model, tmp_path / "talk.wav", "--format", "simuleval", "--policy", policy, *options
    )
    assert code == 0, messages
    ours = json.loads(line)
    assert found.final_text == ours["prediction"] != ""
    # Its clock knows whole chunks alone; stream notices a pause within one.
    assert [1000 * delay for delay in found.ideal_delays] == pytest.approx(ours["delays"], abs=250)


def processor(**options):
    """Return a processor whose model is never asked."""
    pytest.importorskip("simulstream")
    given = {"model": "m", "speech_chunk_size": 0.5} | options
    return DragomanProcessor(SimpleNamespace(**given))


def test_words_that_become_longer_are_deleted_first():
    given = processor()
    given._language = "de"
    first = given._written([Emission("ein Ha", 1.0, 1.0), Emission("us", 2.0, 2.0)])
    assert (first.new_tokens, first.deleted_tokens) == (["ein", "Haus"], [])
    later = given._written(
        [Emission("boot", 3.0, 3.0), Emission(" im", 4.0, 4.0, last=True), Emission("See", 5.0, 5.0)]
    )
    assert (later.new_tokens, later.deleted_tokens) == (["Hausboot", "im", "See"], ["Haus"])
    assert (later.new_string, later.deleted_string) == ("Hausboot im See", "Haus")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"polcy": "hold"}, "^polcy: no option of dragoman stream$"),
        ({"policy": "hold", "k": 4}, "^--k does not apply to the policy hold$"),
    ],
)
def test_options_of_a_processor_are_checked(options, message):
    refuses(UsageError, message, processor, **options)
