"""LibreTranslate's /translate_file: outputs are those of ``dragoman translate``; what waits, and what is refused."""

import re

import pytest

from dragoman.serving import file_routes
from tests import small

pysubs2 = pytest.importorskip("pysubs2")
pytest.importorskip("sentencex")
pytest.importorskip("markdown_it")

SEARCH = ["--beam", "3", "--maximum-length-extra", "12", "--device", "cpu"]
FILM = "1\n00:00:01,000 --> 00:00:02,000\n<i>one two</i>\n\n2\n00:00:05,000 --> 00:00:06,000\nthree four\n"


def sent(client, content, name="news.txt", **changes):
    fields = {"source": "en", "target": "de"} | changes
    return client.post("/translate_file", files={"file": (name, content)}, data=fields)


def fetched(client, answer):
    assert answer.status_code == 200, answer.text
    return client.get(answer.json()["translatedFileUrl"])


FILES = [
    ("news.txt", "one two\n\nthree four\n"),
    ("film.SRT", FILM),
    ("strings.json", '{"a": "one two", "b": [1.0, "three {name} four"]}\n'),
    ("page.md", "# one two\n\nthree `code` four\n\n    code\n"),
]


@pytest.mark.parametrize(("name", "content"), FILES)
def test_a_file_is_what_the_command_writes(dragoman, client, tmp_path, name, content):
    (tmp_path / name.lower()).write_text(content)
    _, expected, _ = dragoman("translate", small.GOLDEN, *SEARCH, tmp_path / name.lower())
    answer = fetched(client, sent(client, content.encode(), name))
    assert answer.text == expected and answer.headers["content-disposition"].startswith(
        "attachment; filename=translated."
    )
    assert not [*client.app.state.uploads.iterdir()]  # nothing is left


def test_warnings_are_part_of_the_answer(client):
    answer = sent(client, b'{"a": "one {name} two"}', "strings.json").json()
    assert answer["warnings"] == ["placeholders were lost, so translated in parts around them: a"]
    assert "warnings" not in sent(client, b'{"a": "one two"}', "strings.json").json()


def test_lines_of_a_file_are_split_into_sentences(dragoman, client, tmp_path):
    text = "One two.  Three four!\n\none two\n"
    _, expected, _ = dragoman("translate", small.GOLDEN, *SEARCH, "--split", text=text)
    assert fetched(client, sent(client, text.encode(), split="true")).text == expected
    assert fetched(client, sent(client, text.encode())).text != expected


@pytest.mark.parametrize(("name", "content"), FILES)
def test_a_file_has_the_terms_of_its_request(dragoman, client, tmp_path, name, content):
    terms = "one\tneun\nfour\tsechs\n"
    (tmp_path / name.lower()).write_text(content)
    (tmp_path / "terms.tsv").write_text(terms)
    command = ["translate", small.GOLDEN, *SEARCH, tmp_path / name.lower()]
    _, usual, _ = dragoman(*command)
    _, expected, _ = dragoman(*command, "--glossary", tmp_path / "terms.tsv")
    answer = sent(client, content.encode(), name, glossary=terms)
    assert fetched(client, answer).text == expected != usual and "missingTerms" not in answer.json()
    assert fetched(client, sent(client, content.encode(), name)).text == usual  # the next request has none


def test_terms_that_a_file_lacks_are_named_once(client):
    """The server's outputs have at most twelve tokens."""
    long = "neun neun neun neun neun neun"
    answer = sent(client, b"one two\nthree\none\n", glossary=f"one\t{long}\nthree\tdrei").json()
    assert answer["missingTerms"] == [long]
    said = sent(client, b"one", glossary="one").json()["error"]
    assert said == "Invalid request: glossary: no source and target with a tab between them: 'one'"


def test_a_file_waits_for_a_while_under_a_name_that_is_not_guessed(client, monkeypatch):
    monkeypatch.setattr(file_routes, "KEPT_FILES", 2)
    answers = [sent(client, b"one two") for _ in range(3)]
    names = {answer.json()["translatedFileUrl"].rpartition("/")[2] for answer in answers}
    assert len(names) == 3 and all(re.fullmatch(r"[\w-]{32}\.txt", name) for name in names)
    assert [client.get(answer.json()["translatedFileUrl"]).status_code for answer in answers] == [404, 200, 200]
    monkeypatch.setattr(file_routes, "KEPT_SECONDS", -1.0)
    assert client.get(answers[2].json()["translatedFileUrl"]).status_code == 404
    assert client.get("/download_file/..%2Fsecret").status_code == 404


def test_a_key_is_asked_for(served):
    with served(keys=["first"]) as client:
        assert sent(client, b"one two").json() == {"error": "Invalid API key"}
        assert fetched(client, sent(client, b"one two", api_key="first")).text == "zwei eins"


@pytest.mark.parametrize(
    ("content", "name", "changes", "message"),
    [
        (b"one", "news.pdf", {}, "a file ends in .txt, .srt, .vtt, .ass, .ssa, .json, .md, .markdown, not '.pdf'"),
        (b"\xff", "news.txt", {}, "the file is not UTF-8 (byte 0)"),
        (b"one " * 501, "news.txt", {}, "file (2004) exceeds text limit (2000)"),
        (b"one", "news.txt", {"target": ""}, "missing target parameter"),
        (b"one", "news.txt", {"source": "xx"}, "source language 'xx' is unknown"),
        (b"1\nnow --> then\none\n", "film.srt", {}, "file: line 2: 'now --> then' are no times"),
        (b"{", "strings.json", {}, "file: line 1: no JSON"),
        (b"none", "film.vtt", {}, "file: holds no subtitles"),
    ],
)
def test_bad_files_are_refused(client, content, name, changes, message):
    answer = sent(client, content, name, **changes)
    assert answer.status_code == 400 and message in answer.json()["error"]
    assert not [*client.app.state.uploads.iterdir()]


def test_a_request_without_a_file_is_refused(client):
    answer = client.post("/translate_file", data={"source": "en", "target": "de"})
    assert answer.status_code == 400 and "missing file parameter" in answer.json()["error"]
