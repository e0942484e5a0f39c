"""The commands choose the task of a folder with several inputs and outputs, and print all texts of one pass."""

import pytest

from dragoman import BeamSearch, Rules, UsageError
from dragoman.commands.evaluate import metrics_by_text
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.search_options import ChoosingOptions
from dragoman.commands.talk_options import SoundOptions
from dragoman.commands.text_options import TextOptions
from dragoman.commands.translate import translate_inputs
from dragoman.st.cascade import Cascade
from tests.shared.systems.test_several_texts import other_tokenizer, several, tokenizer
from tests.small import refuses
from tests.test_nouns import WORDS

__all__ = ["other_tokenizer", "tokenizer"]
SEARCH = BeamSearch(beam=5, rules=Rules(maximum_length_extra=6))


@pytest.fixture
def printed(tmp_path, capsys):
    """Return the lines that ``dragoman translate`` prints of WORDS."""
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(WORDS) + "\n", encoding="utf-8")

    def translate(folder, **models):
        translate_inputs(
            folder,
            [lines],
            languages=(None, None),
            identifier=None,
            n_best=1,
            kind="text",
            out=None,
            texts=TextOptions(),
            sound=SoundOptions(),
            search=ChoosingOptions(maximum_length_extra=6),
            models=ModelOptions(device="cpu", **models),
        )
        return capsys.readouterr().out.splitlines()

    return translate


@pytest.fixture
def system(request):
    return several(request.getfixturevalue("tokenizer"), request.getfixturevalue("other_tokenizer"))


def test_translate_reads_and_writes_what_it_is_told(system, printed, tmp_path):
    system.save(tmp_path / "model")
    for reads in (None, "second"):
        for writes in (None, "transcript"):
            task = system.for_task(reads=None if reads is None else [reads], writes=writes)
            wanted = [text.translate({9: " ", 10: " ", 13: " "}) for text in task.translate(WORDS, search=SEARCH)]
            assert printed(tmp_path / "model", reads=reads, writes=writes) == wanted
    refuses(UsageError, "can read source and second, not 'speech'", printed, tmp_path / "model", reads="speech")


def test_all_texts_of_one_pass_are_printed_the_output_first(system, printed, tmp_path):
    cascade = Cascade(recogniser=system.for_task(writes="transcript"), translator=system).eval()
    cascade.save(tmp_path / "model")
    wanted = [h[0].texts for h in cascade.hypotheses(WORDS, search=SEARCH)]
    assert printed(tmp_path / "model") == [f"{one['translation']}\t{one['transcript']}" for one in wanted]
    recognised = printed(tmp_path / "model", writes="transcript")
    assert recognised == system.for_task(writes="transcript").translate(WORDS, search=SEARCH)


def test_metrics_of_a_text_are_written_behind_its_name():
    found = metrics_by_text(["transcript:wer,cer", "summary:bleu"])
    assert found == {"transcript": ["wer", "cer"], "summary": ["bleu"]}
    for word in ("wer", "transcript:", ":wer"):
        refuses(UsageError, f"--text {word}: name a text and its metrics", metrics_by_text, [word])
