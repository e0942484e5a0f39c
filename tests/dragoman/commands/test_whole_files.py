"""``dragoman translate film.srt``, ``strings.json``, ``page.md``: where the result goes, and what is refused."""

import pytest

from tests.small import GOLDEN

pysubs2 = pytest.importorskip("pysubs2")
pytest.importorskip("sentencex")
pytest.importorskip("markdown_it")


FILM = "1\n00:00:01,000 --> 00:00:02,000\n<i>one two</i>\n\n2\n00:00:05,000 --> 00:00:06,000\nthree four\n"


@pytest.fixture
def film(tmp_path):
    path = tmp_path / "film.srt"
    path.write_text(FILM, encoding="utf-8")
    return path


def test_a_file_is_printed_or_written_with_its_times(dragoman, film, tmp_path):
    _, lines, _ = dragoman("translate", GOLDEN, text="one two\nthree four\n")
    code, printed, _ = dragoman("translate", GOLDEN, film)
    new = pysubs2.SSAFile.from_string(printed)
    assert code == 0 and [one.plaintext for one in new] == lines.splitlines()
    assert [(one.start, one.end) for one in new] == [(1000, 2000), (5000, 6000)] and "\n<i>" in printed
    assert dragoman("translate", GOLDEN, film, "--out", tmp_path / "film.de.srt")[0] == 0
    assert (tmp_path / "film.de.srt").read_text(encoding="utf-8") == printed
    (tmp_path / "other.srt").write_text(FILM, encoding="utf-8")
    assert dragoman("translate", GOLDEN, film, tmp_path / "other.srt", "--out", tmp_path / "de")[0] == 0
    assert {path.read_text(encoding="utf-8") for path in (tmp_path / "de").iterdir()} == {printed}


def test_strings_and_pages_are_translated(dragoman, film, tmp_path):
    _, lines, _ = dragoman("translate", GOLDEN, text="one two\nthree four\n")
    first, second = lines.splitlines()
    strings, page = tmp_path / "strings.json", tmp_path / "page.md"
    strings.write_text('{"a": "one two", "n": 1.0,\n "b": ["three four", ""]}\n', encoding="utf-8")
    page.write_text("# one two\n\n- *three four*\n\n```\ncode\n```\n", encoding="utf-8")
    assert dragoman("translate", GOLDEN, strings)[:2] == (0, f'{{"a": "{first}", "n": 1.0,\n "b": ["{second}", ""]}}\n')
    assert dragoman("translate", GOLDEN, page)[:2] == (0, f"# {first}\n\n- *{second}*\n\n```\ncode\n```\n")
    code, output, _ = dragoman("translate", GOLDEN, strings, page, film, "--out", tmp_path / "de")
    assert (code, output) == (0, "")
    assert {one.name for one in (tmp_path / "de").iterdir()} == {"strings.json", "page.md", "film.srt"}


def test_lost_marks_are_warned_of(dragoman, tmp_path):
    (tmp_path / "a.json").write_text('{"a": {"b": "one {name} two"}}', encoding="utf-8")
    _, lines, _ = dragoman("translate", GOLDEN, text="one\ntwo\none {name} two\n")
    first, second, whole = lines.splitlines()
    assert "{name}" not in whole  # the model does not know it
    code, output, messages = dragoman("translate", GOLDEN, tmp_path / "a.json")
    assert (code, output) == (0, f'{{"a": {{"b": "{first} {{name}} {second}"}}}}')
    assert "a.json: placeholders were lost, so translated in parts around them: a.b" in messages


def test_what_does_not_fit_together_is_refused(dragoman, film, tmp_path):
    (tmp_path / "news.txt").write_text("one\n")
    (tmp_path / "bad.srt").write_text("1\nnow --> then\na\n")

    def refused(message, *options):
        code, output, messages = dragoman("translate", GOLDEN, *options)
        assert code in (1, 2) and not output and message in messages, messages

    refused("news.txt: is no file with a form to keep (.srt, ", film, tmp_path / "news.txt")
    refused("2 files cannot be printed as one", film, tmp_path / "bad.srt")
    refused("line 2: 'now --> then' are no times", film, tmp_path / "bad.srt", "--out", tmp_path / "de")
    assert not (tmp_path / "de").exists()
    refused("would replace a file that is read", film, "--out", film)
    refused("--split does not apply to files of subtitles, JSON and Markdown", film, "--split")
    refused("film.vtt: the output is of the form .srt, not .vtt", film, "--out", tmp_path / "film.vtt")
    refused("de.srt: 2 files cannot be written as one", film, tmp_path / "bad.srt", "--out", tmp_path / "de.srt")
    assert not (tmp_path / "film.vtt").exists() and not (tmp_path / "de.srt").exists()
    refused("without --n-best", film, "--n-best", "2")
    assert film.read_text(encoding="utf-8") == FILM
