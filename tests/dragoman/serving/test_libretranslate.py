"""LibreTranslate's protocol, and what keeps the server alive; outputs are those of ``dragoman translate``."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from dragoman.shared.errors import DataError, UsageError
from tests import small
from tests.dragoman.commands.test_detecting import ENGLISH, FINNISH, FRENCH
from tests.small import refuses

#: The search of the server of these tests.
SEARCH = ["--beam", "3", "--maximum-length-extra", "12", "--device", "cpu"]
NUMBERS = "one two three four five six seven eight nine".split()
LINES = [" ".join(NUMBERS[place % 9 : place % 9 + 1 + place % 4]) for place in range(60)]


def asked(client, q, **changes):
    return client.post("/translate", json={"q": q, "source": "en", "target": "de"} | changes)


def figure(client, name):
    return sum(float(value) for value in re.findall(rf"^dragoman_{name} (\S+)$", client.get("/metrics").text, re.M))


def test_twenty_clients_at_once_get_what_the_command_writes(dragoman, served):
    code, output, _ = dragoman("translate", small.GOLDEN, *SEARCH, text="\n".join(LINES) + "\n")
    expected = output.splitlines()
    assert code == 0 and len({*expected}) > 20
    with served(wait=0.05) as client, ThreadPoolExecutor(20) as clients:
        answers = list(clients.map(lambda number: asked(client, LINES[3 * number : 3 * number + 3]).json(), range(20)))
        batches = figure(client, r'batch_rows_count\{model="text"\}')
        rows = figure(client, r'batch_rows_sum\{model="text"\}')
    assert [text for answer in answers for text in answer["translatedText"]] == expected
    assert rows == 60 and batches < 20  # they shared them


def test_paragraphs_lists_blanks_and_forms(client):
    assert asked(client, "one two\r\n\n  \neight seven").json() == {"translatedText": "zwei eins\n\n\nsieben acht"}
    assert asked(client, ["one two", "", "one two"]).json() == {"translatedText": ["zwei eins", "", "zwei eins"]}
    form = {"q": "one two", "source": "en", "target": "de", "format": "text"}
    assert client.post("/translate", data=form).json() == {"translatedText": "zwei eins"}
    assert client.post("/translate", data=form, files={}).status_code == 200


def test_lines_are_split_into_sentences(dragoman, client):
    pytest.importorskip("sentencex")
    text = "One two.  Three four!\n\none two"
    _, output, _ = dragoman("translate", small.GOLDEN, *SEARCH, text="One two.\nThree four!\none two\n")
    first, second, third = output.splitlines()
    expected = f"{first}  {second}\n\n{third}"
    assert asked(client, text, split=True).json() == {"translatedText": expected}
    assert asked(client, [text, "one two"], split="true").json() == {"translatedText": [expected, third]}
    form = {"q": text, "source": "en", "target": "de"}
    assert client.post("/translate", data=form | {"split": "1"}).json() == {"translatedText": expected}
    assert asked(client, text, split=False).json() == asked(client, text).json() != {"translatedText": expected}
    _, output, _ = dragoman("translate", small.GOLDEN, *SEARCH, "--n-best", "2", text="One two.\nThree four!\n")
    others = [line.split("\t")[2] for line in output.splitlines()][1::2]
    answer = asked(client, text.partition("\n")[0], split=True, alternatives=1).json()
    assert answer["alternatives"] == ["  ".join(others)]


def test_alternatives_are_the_other_hypotheses(dragoman, client):
    _, output, _ = dragoman("translate", small.GOLDEN, *SEARCH, "--n-best", "3", text="one two\n")
    best, *others = [line.split("\t")[2] for line in output.splitlines()]
    assert asked(client, "one two", alternatives=2).json() == {"translatedText": best, "alternatives": others}
    assert asked(client, ["one two"], alternatives=2).json()["alternatives"] == [others]


def test_languages_are_listed_and_detected(client):
    assert client.get("/languages").json() == [{"code": "en", "name": "English", "targets": ["de"]}]
    text = "The train to the city leaves from this station at nine in the morning."
    (best, *_) = client.post("/detect", data={"q": text}).json()
    assert best["language"] == "en" and best["confidence"] > 90
    answer = asked(client, text, source="auto").json()
    assert (
        answer["detectedLanguage"] == best and answer["translatedText"] == asked(client, text).json()["translatedText"]
    )
    answer = asked(client, "Der Zug in die Stadt fährt am Morgen um neun von diesem Bahnhof ab.", source="auto")
    said = "Invalid request: q: the language is unknown (de is likely by 1.00, which is not among en): 'Der Zug"
    assert answer.status_code == 400 and answer.json()["error"].startswith(said)


@pytest.fixture(scope="module")
def towers(tmp_path_factory):
    """Two untrained models with outputs of their own: from English, and from French or English, into German."""
    tokenizer = small.tokenizer([ENGLISH, FRENCH, FINNISH], ("de", "en", "fr"))
    read = small.text(tokenizer, prefix=["<{source_language}>"])
    folders = []
    for seed, codes in enumerate([["en"], ["fr", "en"]]):
        model = small.translator(tokenizer, seed=seed)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.4)
        folders.append(tmp_path_factory.mktemp("towers") / codes[0])
        small.system(tokenizer, model, inputs={"source": read}, source_languages=codes).save(folders[-1])
    return [*map(str, folders)]


def test_texts_whose_translations_lack_their_ends_are_named(dragoman, served, towers):
    """Outputs have at most twelve tokens; the command says which lines need more."""
    lines = [FRENCH, "", ENGLISH]
    code, output, messages = dragoman("translate", towers[0], *SEARCH, text="".join(f"{one}\n" for one in lines))
    assert code == 0 and "cut off at the maximum length (see --maximum-length-extra): line 1, line 3" in messages
    with served(towers[:1]) as client:
        answer = asked(client, ["\n".join(lines), "", lines[0]]).json()
        assert answer["translatedText"][0] + "\n" == output
        assert answer["cutOff"] == [[FRENCH, ENGLISH], [], [FRENCH]]
        assert asked(client, ENGLISH).json()["cutOff"] == [ENGLISH] and "cutOff" not in asked(client, "").json()
        files = {"file": ("news.txt", "\n".join(lines).encode())}
        answer = client.post("/translate_file", files=files, data={"source": "en", "target": "de"}).json()
        assert answer["cutOff"] == [FRENCH, ENGLISH]
        assert client.get(answer["translatedFileUrl"].removeprefix(str(client.base_url))).text + "\n" == output


def test_each_text_of_a_request_has_its_own_language(served, towers):
    with served(towers) as client:
        named = [asked(client, ENGLISH).json(), asked(client, FRENCH, source="fr").json()]
        texts = [one["translatedText"] for one in named]
        assert asked(client, FRENCH).json() != named[1]  # the other model
        answer = asked(client, [FRENCH, ENGLISH, "", FRENCH], source="auto").json()
        assert answer["translatedText"] == [texts[1], texts[0], "", texts[1]]
        found = client.post("/detect", json={"q": [FRENCH, ENGLISH]}).json()
        assert [best for best, *_ in found] == [answer["detectedLanguage"][n] for n in (0, 1)]
        assert found[0] == client.post("/detect", json={"q": FRENCH}).json() and found[0][0]["language"] == "fr"
        assert answer["detectedLanguage"][2] == {"language": "en", "confidence": 0.0}
        for content, code in ((ENGLISH, "en"), (FRENCH, "fr")):
            for name, form in (("a.txt", "{}"), ("a.json", '{{"title": "{}"}}'), ("a.md", "# {}\n")):
                files = {"file": (name, form.format(content))}
                auto, usual = (
                    client.post("/translate_file", data={"source": one, "target": "de"}, files=files).json()
                    for one in ("auto", code)
                )
                wanted, made = (client.get(one["translatedFileUrl"]).text for one in (usual, auto))
                assert made == wanted and auto["detectedLanguage"]["language"] == code
                assert "detectedLanguage" not in usual


@pytest.mark.parametrize(
    ("texts", "place", "why"),
    [
        ([ENGLISH, FINNISH], r"q\[1\]", r"fi is likely by 1\.00, which is not among en, fr"),
        ("Ok", "q", r"\w+ is likely by 0\.\d\d, and 0\.9 is asked for"),
    ],
)
def test_an_unknown_language_is_said_and_not_guessed(served, towers, texts, place, why):
    with served(towers) as client:
        answer = asked(client, texts, source="auto")
        said = rf"Invalid request: {place}: the language is unknown \({why}\): .*: name the source, or auto:CODE"
        assert answer.status_code == 400 and re.match(said, answer.json()["error"]), answer.text
        several = texts if isinstance(texts, list) else [texts]
        taken = asked(client, several, source="auto:fr").json()
        assert taken["translatedText"][-1] == asked(client, several[-1], source="fr").json()["translatedText"]
        assert taken["detectedLanguage"][-1] == {"language": "fr", "confidence": 0.0}
        assert "source language 'xx' is unknown" in asked(client, texts, source="auto:xx").json()["error"]
        file = {"data": {"source": "auto", "target": "de"}, "files": {"file": ("a.txt", FINNISH)}}
        answer = client.post("/translate_file", **file)
        assert answer.status_code == 400 and "file: the language is unknown (fi is likely" in answer.json()["error"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": ""}, "missing q parameter"),
        ({"q": []}, "missing q parameter"),
        ({"q": 7}, "q is text, not 7"),
        ({"q": ["one", None]}, "q is text, not None"),
        ({"q": "\ud800"}, r"q is text, not '\ud800'"),
        ({"q": "one " * 501}, "request (2004) exceeds text limit (2000)"),
        ({"source": "xx"}, "source language 'xx' is unknown to this system, which knows en"),
        ({"target": None}, "missing target parameter"),
        ({"target": ["de"]}, "missing target parameter"),
        ({"format": "html"}, "format 'html' is not supported, only text"),
        ({"alternatives": 3}, "alternatives must be a number at least 0 and at most 2, not 3"),
        ({"split": "yes"}, "split is true or false, not 'yes'"),
        ({"split": [1]}, "split is true or false, not [1]"),
        ({"alternatives": "many"}, "alternatives must be a number"),
        ({"alternatives": 1.5}, "alternatives must be a whole number, not 1.5"),
    ],
)
def test_a_request_that_asks_for_what_there_is_not_is_an_error(client, change, message):
    body = json.dumps(
        {"q": "one", "source": "en", "target": "de"} | change
    )  # in ASCII: httpx writes no lone surrogates
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and message in answer.json()["error"] and [*answer.json()] == ["error"]


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        (b"{", "application/json", 400, "the body is not JSON"),
        (b"\xff\xfe\xff", "application/json", 400, "the body is not JSON"),
        (b"[" * 20000, "application/json", 400, "nested more than 100 levels deep"),
        (b"[1]", "application/json", 400, "the body is a list, not an object"),
        (b"--x\r\n", "multipart/form-data", 400, "boundary"),
        (b"one two", "text/plain", 400, "missing q parameter"),
        (b'{"q": "' + b"a" * 100_000 + b'"}', "application/json", 413, "more than 89,536 bytes"),
    ],
)
def test_a_body_that_cannot_be_read_is_an_error(client, content, kind, status, message):
    answer = client.post("/translate", content=content, headers={"content-type": kind})
    assert answer.status_code == status and message in answer.json()["error"], answer.text
    answer = client.post("/translate", content=iter([content]), headers={"content-type": kind})  # without its length
    assert answer.status_code == status and message in answer.json()["error"]
    assert asked(client, "one two").json() == {"translatedText": "zwei eins"}


def test_a_text_is_no_path(client, tmp_path, write_sound):
    write_sound(tmp_path / "talk.wav")
    assert asked(client, str(tmp_path / "talk.wav")).status_code == 200


def test_a_key_is_asked_for(served):
    with served(keys=["first", "sécond"]) as client:
        assert asked(client, "one two").status_code == asked(client, "one two", api_key="firs").status_code == 403
        assert asked(client, "one two", api_key="wrong").json() == {"error": "Invalid API key"}
        assert client.post("/detect", data={"q": "one two"}).status_code == 403
        for key in ("first", "sécond"):
            assert asked(client, "one two", api_key=key).json() == {"translatedText": "zwei eins"}
        headers = {"authorization": "Bearer first"}
        answer = client.post("/translate", data={"q": "one two", "source": "en", "target": "de"}, headers=headers)
        assert answer.status_code == 200
        assert client.get("/health").status_code == 200


def test_one_too_many_is_told_to_come_again(served):
    with served(requests=1, wait=1.0) as client, ThreadPoolExecutor(1) as others:
        waits = others.submit(asked, client, "one two")
        batcher = client.app.state.models.batchers[0]
        while not batcher.waiting:
            assert not waits.done()
        ready, answer = client.get("/ready"), asked(client, "one two")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1") and "try again later" in answer.text
        assert (ready.status_code, ready.json()) == (503, {"status": "full"})
        assert waits.result(60).json() == {"translatedText": "zwei eins"} and client.get("/ready").status_code == 200


def test_what_is_late_fails_and_is_not_translated(served):
    with served(deadline=0.05, wait=0.5) as client:
        answer = asked(client, "one two")
        assert answer.status_code == 504 and answer.json() == {"error": "no answer within 0.05 seconds"}
        assert [batcher.waiting for batcher in client.app.state.models.batchers] == [0, 0]
    assert figure(client, r"work_seconds_total\{.*\}") == 0


def test_a_request_whose_client_has_gone_is_not_translated(served):
    """The application is called as a server does whose client sends a request and hangs up."""
    messages = [
        {"type": "http.request", "body": b"q=one+two&source=en&target=de", "more_body": False},
        {"type": "http.disconnect"},
    ]
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    headers = [(b"content-type", b"application/x-www-form-urlencoded")]
    scope = {"type": "http", "method": "POST", "path": "/translate", "headers": headers, "query_string": b""}
    scope |= {"http_version": "1.1", "scheme": "http", "raw_path": b"/translate", "server": ("here", 80)}
    with served() as client:
        client.portal.call(client.app, scope, receive, send)
        assert sent[0]["status"] == 499 and figure(client, r"work_seconds_total\{.*\}") == 0
        assert 'requests_total{route="/translate",status="499"} 1.0' in client.get("/metrics").text


def test_pages_of_others_may_not_call(served):
    origin = {"origin": "https://example.org", "access-control-request-method": "POST"}
    with served() as client:
        assert "access-control-allow-origin" not in client.options("/translate", headers=origin).headers
    with served(origin=["https://example.org"]) as client:
        answer = client.options("/translate", headers=origin)
        assert answer.headers["access-control-allow-origin"] == "https://example.org"
        read = client.get("/languages", headers={"origin": "https://example.org"})
        assert read.headers["access-control-expose-headers"] == "X-Cut-Segments, Retry-After"
        origin["origin"] = "https://example.com"
        assert "access-control-allow-origin" not in client.options("/translate", headers=origin).headers


def test_a_failure_of_ours_is_an_error_of_the_protocol(client, monkeypatch):
    def fail(*_):
        raise RuntimeError("a secret")

    monkeypatch.setattr("dragoman.serving.libretranslate.detected", fail)
    answer = client.post("/detect", json={"q": "one two"})
    assert answer.status_code == 500 and answer.json() == {"error": "the server failed; its log says how"}
    assert asked(client, "one two").status_code == 200


def test_what_a_server_says_of_itself(client):
    translated, unknown = (
        rf'requests_total\{{route="{route}",status="{s}"\}}' for route, s in (("/translate", 200), ("other", 404))
    )
    before = figure(client, translated), figure(client, unknown)
    asked(client, "one two"), client.get("/nowhere/1"), client.get("/nowhere/2")
    assert (figure(client, translated), figure(client, unknown)) == (before[0] + 1, before[1] + 2)
    metrics = client.get("/metrics").text
    assert 'dragoman_waiting_rows{model="text"} 0.0' in metrics
    assert client.get("/health").json()["status"] == "ok" and client.get("/ready").json() == {"status": "ready"}
    page = client.get("/docs").text
    assert "POST /translate" in page and not re.search("src=|https?:", page)
    routes = client.get("/openapi.json").json()["paths"]
    assert "q" in str(routes["/translate"]) and {"/v1/models", "/metrics", "/ready"} <= {*routes}
    assert (client.get("/translate").status_code, client.get("/translate").json()) == (
        405,
        {"error": "Method Not Allowed"},
    )


# -- terms ------------------------------------------------------------------------------------------------------------


def test_a_request_brings_terms(client):
    usual = asked(client, ["one two", "three four"]).json()["translatedText"]
    for terms in ({"one": "neun"}, "one\tneun\n\nsix\tsechs\n"):
        first, second = asked(client, ["one two", "three four"], glossary=terms).json()["translatedText"]
        assert "neun" in first.split() and "neun" not in usual[0] and second == usual[1]
    form = {"q": "one two", "source": "en", "target": "de", "glossary": "one\tneun"}
    assert client.post("/translate", data=form).json() == {"translatedText": first}
    assert asked(client, "one two", glossary={}).json() == {"translatedText": usual[0]}
    several = asked(client, "one two", glossary={"one": "neun"}, alternatives=2).json()
    assert all("neun" in text.split() for text in several["alternatives"]) and len(several["alternatives"]) == 2


def test_terms_without_a_place_are_named(client):
    """The server's outputs have at most twelve tokens."""
    long = "neun neun neun neun neun neun"
    answer = asked(client, ["three", "one two\nthree"], glossary={"one": long}).json()
    assert answer["missingTerms"] == [[], [long]]
    assert asked(client, "one", glossary={"one": long}).json()["missingTerms"] == [long]
    assert "missingTerms" not in asked(client, "three", glossary={"one": long}).json()


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"one": ""}, "glossary: 'one': the target is empty"),
        ({"one": 1}, "glossary is an object of texts, or lines with a tab"),
        ({"one": "\ud800"}, "glossary is an object of texts"),
        (["one", "eins"], "glossary is an object of texts"),
        ("one eins", "glossary: no source and target with a tab between them: 'one eins'"),
        ("one\teins\tuno", "glossary: no source and target with a tab"),
        ("one\teins\none\tein", "'one' is 'ein' here, and 'eins' at"),
        ({"one": "a" * 3000}, "glossary (3003) exceeds text limit (2000)"),
    ],
)
def test_terms_that_are_none_are_refused(client, terms, message):
    body = json.dumps({"q": "one", "source": "en", "target": "de", "glossary": terms})
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and message in answer.json()["error"]


def test_a_server_has_terms_and_those_of_a_request_go_before(served, talk_model, tmp_path):
    (tmp_path / "terms.tsv").write_text("en\tde\none\tneun\nthree\tsechs\n")
    with served(glossary=tmp_path / "terms.tsv") as client:
        assert "neun" in asked(client, "one two").json()["translatedText"].split()
        both = asked(client, "one three", glossary={"one": "acht"}).json()["translatedText"].split()
        assert {"acht", "sechs"} <= {*both} and "neun" not in both
        file = {"file": ("lines.txt", "one two\n")}
        made = client.post("/translate_file", data={"source": "en", "target": "de"}, files=file).json()
        assert "neun" in client.get(made["translatedFileUrl"]).text.split()
    (tmp_path / "terms.tsv").write_text("one neun\n")
    refuses(DataError, "terms.tsv: line 1: no tab", served(glossary=tmp_path / "terms.tsv").__enter__)
    (tmp_path / "terms.tsv").write_text("one\tneun\n")
    message = "--glossary does not apply: no model reads text"
    refuses(UsageError, message, served([f"talks={talk_model}"], glossary=tmp_path / "terms.tsv").__enter__)
