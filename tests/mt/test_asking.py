"""Ask: what a server is asked, how often, what is kept of its answers, and what a stopped run asks again."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.asking import Ask, Server
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.quality import Quality
from tests import small
from tests.small import refuses

pytest.importorskip("openai")


class Stub:
    """Answers a text with its words in reverse, after the states in ``trouble`` with which it fails first."""

    def __init__(self):
        self.asked, self.keys, self.trouble, self.ended, self.body = [], set(), {}, {}, None
        self.times = Counter()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = request["messages"][0]["content"].rpartition("\n")[2]
                server.times[text] += 1
                server.keys.add(self.headers["Authorization"])
                failures = server.trouble.get(text, [])
                if server.times[text] <= len(failures):
                    return self.reply(failures[server.times[text] - 1], {"error": {"message": "not now"}})
                server.asked.append(request)
                said = {"role": "assistant", "content": f"  {reversed_words(text)}\n"}
                choice = {"index": 0, "message": said, "finish_reason": server.ended.get(text, "stop")}
                usage = {"prompt_tokens": 10 + len(text), "completion_tokens": 3, "total_tokens": 13 + len(text)}
                plain = {"id": "1", "object": "chat.completion", "created": 1, "model": request["model"]}
                return self.reply(200, server.body or plain | {"choices": [choice], "usage": usage})

            def reply(self, status, body):
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if status == 429:
                    self.send_header("Retry-After", "0.01")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.http.server_port}/v1"


@pytest.fixture
def server():
    made = Stub()
    yield made
    made.http.shutdown()
    made.http.server_close()


TEXTS = ["one two three", "four five", "six seven", "eight nine ten", "two two four"]


@pytest.fixture
def manifest(tmp_path):
    rows = [small.row(f"r{number}", text, "old") | {"speaker": "a"} for number, text in enumerate(TEXTS)]
    return Manifest.write(tmp_path / "en-de" / "train.arrow", rows)


@pytest.fixture
def place(tmp_path):
    return lambda name="run": Workspace(
        output=tmp_path / name, phase="ask", device="cpu", noprogressbar=True, workers=0
    )


def ask(server, manifest, **options):
    of_server = {name: options.pop(name) for name in ("address", "key", "prices", "retries") if name in options}
    asked = Server(**({"address": server.address, "model": "big", "retries": 2} | of_server))
    return Ask(**({"server": asked, "manifests": [str(manifest.path)], "shard_rows": 2} | options))


def reversed_words(text):
    return " ".join(reversed(text.split()))


def test_each_row_is_asked_once_and_keeps_the_rest(server, manifest, place, monkeypatch):
    monkeypatch.setenv("SECRET", "k-123")
    ask(server, manifest, key="SECRET", prices=[2.0, 10.0], options={"seed": 7}).run(place())
    made = list(Manifest.open(place().folder / "en-de" / "train.arrow"))
    for old, row in zip(manifest, made, strict=True):
        assert row["target_text"] == reversed_words(old["source_text"])
        known = {"model": "big", "made_from": manifest.fingerprint}
        counts = {"prompt_tokens": 10 + len(old["source_text"]), "answer_tokens": 3}
        assert row == old | {"target_text": row["target_text"]} | known | counts
    assert len(server.asked) == 5 and server.keys == {"Bearer k-123"}
    request = next(one for one in server.asked if one["messages"][0]["content"].endswith("four five"))
    content = "Translate from English into German. Answer with the translation alone.\n\nfour five"
    expected = {"model": "big", "temperature": 0.0, "max_tokens": 1024, "seed": 7}
    assert request == expected | {"messages": [{"role": "user", "content": content}]}
    note = json.loads((place().folder / "generated.json").read_text())
    read = sum(10 + len(text) for text in TEXTS)
    assert (note["prompt_tokens"], note["answer_tokens"]) == (read, 15)
    assert note["price"] == pytest.approx((2 * read + 10 * 15) / 1e6)
    assert "k-123" not in (place().folder / "generated.json").read_text()


def test_a_busy_server_is_asked_again(server, manifest, place):
    server.trouble = {"four five": [429, 503], "six seven": [500]}
    ask(server, manifest).run(place())
    made = Manifest.open(place().folder / "en-de" / "train.arrow")
    assert [row["target_text"] for row in made] == [reversed_words(text) for text in TEXTS]
    assert server.times["four five"] == 3 and server.times["six seven"] == 2 and server.times["two two four"] == 1


def test_what_was_answered_is_not_asked_again(server, manifest, place):
    server.trouble = {"eight nine ten": [503] * 3}
    refuses(DataError, "no answer in 3 tries: .*the same command goes on", ask(server, manifest).run, place())
    assert server.times["one two three"] == server.times["four five"] == 1 and not server.times["two two four"]
    ask(server, manifest).run(place())
    assert server.times["one two three"] == server.times["four five"] == 1
    ask(server, manifest).run(place("whole"))
    for one, other in zip(place().folder.rglob("*.arrow"), place("whole").folder.rglob("*.arrow"), strict=True):
        assert one.read_bytes() == other.read_bytes()
    server.trouble = {"eight nine ten": [503] * 99}
    server.times.clear()
    refuses(DataError, "no answer", ask(server, manifest).run, place("other"))
    refuses(UsageError, "was begun with another request", ask(server, manifest, temperature=0.5).run, place("other"))


def test_answers_that_are_no_translations_are_dropped(server, manifest, place):
    server.ended = {"four five": "length", "two two four": "content_filter"}
    server.trouble = {"six seven": [400] * 9}
    ask(server, manifest, quality=Quality(maximum_dropped=0.7)).run(place())
    note = json.loads((place().folder / "generated.json").read_text())
    [told] = note["manifests"]
    assert told["rows"] == 2 and set(told["dropped"].values()) == {1}
    kinds = sorted(told["dropped"])
    assert kinds[:2] == ["content_filter", "cut"] and kinds[2].startswith("refused by the server: ")
    assert note["answer_tokens"] == 12  # those of dropped answers cost, too
    refuses(DataError, "3 of 5 outputs would be dropped", ask(server, manifest).run, place("strict"))


def test_other_answers_a_wrong_key_and_no_server_are_told(server, manifest, place):
    for body, message in (
        ({"object": "x"}, "an answer is no chat completion"),
        ({"choices": []}, "no chat completion"),
    ):
        server.body = body
        refuses(DataError, message, ask(server, manifest).run, place())
    server.times.clear()
    server.trouble = dict.fromkeys(TEXTS, [401] * 9)
    refuses(DataError, "refuses the key in the environment variable OPENAI", ask(server, manifest).run, place())
    nobody = ask(server, manifest, address="http://127.0.0.1:9/v1", retries=0)
    refuses(DataError, "no answer in 1 tries: Connection error", nobody.run, place("nobody"))


def test_what_makes_no_sense_is_refused(server, manifest, place, tmp_path):
    def refused(message, **options):
        refuses(UsageError, message, ask, server, manifest, **options)

    refused("address must begin with http", address="localhost:8000")
    refused("prompt must have {text} once", prompt="Translate.")
    refused("columns of text, whose names end in _text, not 'target'", column="target")
    refused("an answer has no score", quality=Quality(minimum_score=-1.0))
    refused("prices are two", prices=[1.0])
    empty = Manifest.write(tmp_path / "en-fr" / "dev.arrow", [small.row("r9", " ", "x")])
    refuses(DataError, "row 'r9' has no source_text, which the prompt holds", ask(server, empty).run, place())
