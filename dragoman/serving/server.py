"""``dragoman serve``: models behind HTTP, until the process is told to stop."""

from __future__ import annotations

import resource
import socket
from contextlib import suppress
from importlib.util import find_spec
from types import FrameType
from typing import Any

from dragoman.commands.endings import warn
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.serving_options import ServingOptions
from dragoman.commands.talk_options import PolicyOptions, SoundOptions
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.stopping import noticed
from dragoman.shared.sound.segmentation import check_segmenter
from dragoman.shared.sound.speech_activity import check_detector

#: Addresses that no other machine reaches.
_OWN = ("127.0.0.1", "::1", "localhost")
#: Files that a request has open: its connection, an upload, and the ends of pipes to the process that decodes it; and
#: those that a server has open without any, with room for connections that bring no request.
_OF_A_REQUEST, _ALWAYS = 5, 200


def serve_models(
    words: list[str],
    *,
    serving: ServingOptions,
    sound: SoundOptions,
    listening: PolicyOptions,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    """Load models and answer requests; SIGTERM and Ctrl-C let those in flight be answered first.

    Args:
        words: model folders, as FOLDER or NAME=FOLDER.
        serving: the address, the keys, the terms and the limits.
        sound: how recordings are divided.
        listening: what is written of a speaker who is heard live.
        search: how outputs are found.
        models: the device, and further models of a search.

    Raises:
        DataError: if a folder is not a model folder, keys cannot be read, or the address is taken.
        UsageError: if options do not fit together, or the extra ``serve`` is not installed.
    """
    found = [find_spec("fastapi"), find_spec("uvicorn"), find_spec("python_multipart"), find_spec("prometheus_client")]
    if None in [*found, find_spec("websockets"), find_spec("pydantic")]:
        raise UsageError("dragoman serve needs further packages: pip install 'dragoman[serve]'")
    import uvicorn

    from dragoman.serving.app import application
    from dragoman.serving.connections import configured
    from dragoman.serving.counters import Counters
    from dragoman.serving.protection import read_keys
    from dragoman.serving.served import Models

    check_detector(sound.speech_detector)
    check_segmenter(sound.segmenter)
    keys = None if serving.keys is None else read_keys(serving.keys)
    with bound(serving.host, serving.port) as place:
        counters = Counters()
        wait = serving.batch_wait / 1000
        options: dict[str, Any] = {"sound": sound, "search": search, "models": models, "listening": listening}
        options |= {"glossary": serving.glossary, "context": serving.context}
        loaded = Models.load(words, wait=wait, observe=counters.translated, **options)
        app = application(loaded, counters, serving, keys=keys)
        if keys is None and serving.host not in _OWN:
            warn(f"--host {serving.host} without --keys: whoever reaches this machine can use the server")
        allow_files(serving)

        class Announced(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                host, port = place.getsockname()[:2]
                address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
                print(f"serving {', '.join(loaded.served)} at {address}", flush=True)

            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                noticed.set()
                super().handle_exit(sig, frame)

        try:
            Announced(configured(app, serving.deadline)).run(sockets=[place])
        except KeyboardInterrupt:  # which uvicorn sends again after it has stopped: that was meant
            pass


def allow_files(serving: ServingOptions) -> None:
    """Let this process have as many files open as all clients that are let in need, or warn of too few."""
    wanted = serving.readers + serving.live + _OF_A_REQUEST * serving.requests + _ALWAYS
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or wanted <= allowed:
        return
    with suppress(OSError, ValueError):  # some systems allow fewer than they say
        allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed < wanted:
        warn(
            f"--readers {serving.readers}, --live {serving.live} and --requests {serving.requests} may need {wanted:,} "
            f"open files, and the system allows {allowed:,} (ulimit -n): who comes beyond is not answered"
        )


def bound(host: str, port: int) -> socket.socket:
    """Return a socket with this address, which does not listen yet.

    Raises:
        DataError: if it is taken, or none of this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        place = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DataError(f"--host {host}: {error}") from error
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind(address)
    except OSError as error:
        place.close()
        raise DataError(f"--host {host} --port {port}: {error.strerror}") from error
    return place
