"""Options of a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dragoman.commands.options import option
from dragoman.commands.text_options import ContextLines, GlossaryFile
from dragoman.shared.errors import check_number

ADDRESS, LIMITS = "Address and keys", "Limits of requests"


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """The address of a server, who may use it, the terms of all, and the limits of what they ask (docs/serving.md)."""

    host: Annotated[str, option("address to listen at; 0.0.0.0: at all of this machine's", ADDRESS)] = "127.0.0.1"
    port: Annotated[int, option("port; 0: a free one", ADDRESS, min=0, max=65535)] = 8000
    keys: Annotated[
        Path | None, option("file with one key per line, of which a client must have one; default: none", ADDRESS)
    ] = None
    origin: Annotated[
        list[str] | None,
        option("web page that may call the server from a browser (https://example.org); repeatable", ADDRESS),
    ] = None
    glossary: GlossaryFile = None
    context: ContextLines = 0
    upload_megabytes: Annotated[float, option("size of an upload", LIMITS)] = 25.0
    upload_seconds: Annotated[float, option("seconds of sound in an upload", LIMITS)] = 3600.0
    characters: Annotated[int, option("characters of all texts of a request", LIMITS, min=1)] = 20_000
    requests: Annotated[
        int, option("requests that are answered or wait at a time; others are told to come again (429)", LIMITS, min=1)
    ] = 64
    requests_per_client: Annotated[
        int, option("of these, those of one client: by its key, or its address without one", LIMITS, min=1)
    ] = 32
    deadline: Annotated[float, option("seconds after which a request has failed (504)", LIMITS)] = 300.0
    live: Annotated[
        int, option("speakers who are heard live at a time; others are told to come again (429)", LIMITS, min=0)
    ] = 8
    live_seconds: Annotated[float, option("seconds after which a live session is ended", LIMITS)] = 14_400.0
    readers: Annotated[int, option("readers of all rooms at a time", LIMITS, min=0)] = 1000
    batch_wait: Annotated[
        float, option("milliseconds that a line or segment waits for others to share its batch", LIMITS, min=0.0)
    ] = 5.0

    def check(self) -> None:
        """Refuse numbers out of their ranges, by UsageError."""
        check_number("--upload-megabytes", self.upload_megabytes, above=0, most=100_000)
        check_number("--upload-seconds", self.upload_seconds, above=0, most=1e6)
        check_number("--deadline", self.deadline, above=0, most=1e6)
        check_number("--live-seconds", self.live_seconds, above=0, most=1e6)
        check_number("--batch-wait", self.batch_wait, least=0, most=10_000)
