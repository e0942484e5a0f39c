"""A server in this process, with a translator of text and a model of speech that has two tasks."""

import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

pytest.importorskip("fastapi")
pytest.importorskip("httpx2")

from fastapi.testclient import TestClient

from dragoman.commands.model_options import ModelOptions
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.serving_options import ServingOptions
from dragoman.commands.talk_options import PolicyOptions, SoundOptions
from dragoman.serving.app import application
from dragoman.serving.counters import Counters
from dragoman.serving.served import Models
from dragoman.serving.server import bound
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.systems.system import System
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small

LIMITS = {"upload_megabytes": 0.1, "upload_seconds": 3.0, "characters": 2000, "requests": 32, "deadline": 60.0}


@pytest.fixture(scope="session")
def talk_model(tmp_path_factory):
    """An untrained model of English sound that writes German, or a transcript."""
    tokenizer = SentencePieceTokenizer(model=str(small.GOLDEN / "tokenizer.model"), tags=["en", "de"])
    torch.manual_seed(6)
    model = small.translator(tokenizer, embeddings={"speech": small.speech_embedding()})
    transcript = {"transcript": small.text(tokenizer, "source")}
    folder = tmp_path_factory.mktemp("talk") / "model"
    small.system(tokenizer, model, inputs={"speech": SpeechField()}, other_outputs=transcript).save(folder)
    return folder


@pytest.fixture(scope="session")
def made(talk_model):
    """Return a function that makes the application, by default of both models."""

    def make(words=None, *, keys=None, wait=0.005, keep_silence=True, glossary=None, context=0, chunk=0.2, **changes):
        counters = Counters()
        options = {
            "sound": SoundOptions(keep_silence=keep_silence, maximum_seconds=1.0),
            "search": SearchOptions(beam=3, maximum_length_extra=12),
            "models": ModelOptions(device="cpu"),
            "listening": PolicyOptions(chunk=chunk, pause=0.3),
        }
        words = [f"text={small.GOLDEN}", f"talks={talk_model}"] if words is None else words
        options |= {"glossary": glossary, "context": context}
        models = Models.load(words, wait=wait, observe=counters.translated, **options)
        return application(models, counters, ServingOptions(**LIMITS | changes), keys=keys)

    return make


@pytest.fixture(scope="session")
def served(made):
    """Return a function that starts an application and gives a client within this process."""

    @contextmanager
    def start(*words, **changes):
        with TestClient(made(*words, **changes), raise_server_exceptions=False) as client:
            yield client

    return start


@pytest.fixture(scope="module")
def client(served):
    with served() as client:
        yield client


@pytest.fixture(scope="session")
def running(made):
    """Return a function that starts a server in a thread of this process, on a free port; gives uvicorn's object."""
    uvicorn = pytest.importorskip("uvicorn")
    from dragoman.serving.connections import configured

    @contextmanager
    def start(**changes):
        deadline = changes.get("deadline", LIMITS["deadline"])
        with bound("127.0.0.1", 0) as place:
            server = uvicorn.Server(configured(made(**changes), deadline))
            server.address = f"http://127.0.0.1:{place.getsockname()[1]}"
            thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
            thread.start()
            while not server.started:
                assert thread.is_alive()
            try:
                yield server
            finally:
                server.should_exit = True
                thread.join(60)

    return start


@pytest.fixture(scope="session")
def serving(running):
    """Return a function that starts a server in a thread of this process, and gives its address."""

    @contextmanager
    def start(**changes):
        with running(**changes) as server:
            yield server.address

    return start


@pytest.fixture
def long_ones_are_cut(monkeypatch):
    """Let hypotheses of more than 0.7 s lack their ends, and no others."""
    searched = System.searched

    def search(self, generator, batch, search, *, forced=None):
        found = searched(self, generator, batch, search, forced=forced)
        lengths = (batch[self.reads[0]].lengths / 16000).tolist()
        return [[replace(one, cut=n > 0.7) for one in few] for few, n in zip(found, lengths, strict=True)]

    monkeypatch.setattr(System, "searched", search)
