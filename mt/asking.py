"""A teacher behind an address: the phase in which a language model there writes training data.

The address speaks OpenAI's chat completions: a server of one's own (vLLM, llama.cpp, Ollama) or a paid one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import pyarrow as pa

from dragoman.shared.annotations import Checked
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.errors import DataError, UsageError, shortened
from dragoman.shared.machine.extras import require
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.quality import Quality
from dragoman.shared.phases.sharded import DROPPED, Shard, Sharded
from dragoman.shared.ranges import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Range
from dragoman.shared.text.languages import with_languages

#: What a model is told, if nothing else is.
PROMPT = "Translate from {source_language} into {target_language}. Answer with the translation alone.\n\n{text}"
#: What is known of an answer, beside the columns of the row that it was made for.
COLUMNS = {"model": pa.string(), "made_from": pa.string(), "prompt_tokens": pa.int64(), "answer_tokens": pa.int64()}


@dataclass(frozen=True)
class Answer:
    """An answer of the model.

    Attributes:
        text: without outer spaces, in one line.
        ended: "stop" if it is whole; else why not, as the server says.
        prompt_tokens: how many were read, as the server counts.
        answer_tokens: how many were written.
    """

    text: str
    ended: str
    prompt_tokens: int
    answer_tokens: int


class Server(Checked):
    """A server of a language model. Needs the extra ``teacher``.

    Args:
        address: with its version: "http://localhost:8000/v1".
        model: what the server calls the model.
        key: the environment variable that holds the key; servers of one's own need none.
        at_a_time: how many requests wait for an answer.
        retries: how often a request is sent again when the server is busy, down, or does not answer in time; waits
            grow, or are those that the server asks for.
        timeout: seconds until an answer must be there.
        prices: for a million tokens that are read, and that are written, in any currency.

    Raises:
        UsageError: for an address or prices that make no sense, or without the library.
    """

    def __init__(
        self,
        *,
        address: str,
        model: str,
        key: str = "OPENAI_API_KEY",
        at_a_time: PositiveInt = 16,
        retries: NonNegativeInt = 8,
        timeout: PositiveFloat = 120.0,
        prices: Annotated[list[float], Range(least=0)] | None = None,
    ) -> None:
        require("openai", "teacher", "a teacher behind an address")
        if not address.startswith(("http://", "https://")):
            raise UsageError(f"address must begin with http:// or https://, not {address!r}")
        if prices is not None and len(prices) != 2:
            raise UsageError(f"prices are two, of tokens that are read and that are written, not {prices}")
        self.address = address
        self.model = model
        self.key = key
        self.at_a_time = at_a_time
        self.retries = retries
        self.timeout = timeout
        self.prices = prices

    def answers(self, prompts: Sequence[str], request: dict[str, Any]) -> list[Answer]:
        """Return the answers to prompts.

        Args:
            prompts: each is one message of a user.
            request: further fields, ``{"temperature": 0}`` for example.

        Raises:
            DataError: if the server refuses the key, gives no answer, or answers something else.
        """
        import openai

        client = openai.OpenAI(
            base_url=self.address,
            api_key=os.environ.get(self.key) or "none",
            timeout=self.timeout,
            max_retries=self.retries,
        )
        with client, ThreadPoolExecutor(self.at_a_time) as pool:
            try:
                return list(pool.map(partial(self._answer, client, request), prompts))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _answer(self, client: Any, request: dict[str, Any], prompt: str) -> Answer:
        """Ask, again and again if need be."""
        import openai

        try:
            found = client.chat.completions.create(
                model=self.model, messages=[{"role": "user", "content": prompt}], extra_body=request
            )
            [choice], used = found.choices, found.usage
            if used is None:
                raise ValueError("no usage")
            text = " ".join((choice.message.content or "").split())
            return Answer(text, choice.finish_reason, used.prompt_tokens, used.completion_tokens)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            return Answer("", f"refused by the server: {shortened(error.message)}", 0, 0)
        except openai.AuthenticationError as error:
            raise DataError(f"{self.address}: refuses the key in the environment variable {self.key}") from error
        except openai.OpenAIError as error:
            raise DataError(
                f"{self.address}: no answer in {self.retries + 1} tries: {shortened(str(error))}; "
                "what was answered before is kept, and the same command goes on"
            ) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise DataError(f"{self.address}: an answer is no chat completion: {shortened(str(error))}") from error


class Ask(Sharded):
    """Translate manifests with a language model behind an address, into new manifests of the same rows.

    Rows keep all their columns, and get the free columns ``model``, ``made_from`` (fingerprint of the manifest),
    ``prompt_tokens`` and ``answer_tokens``; ``generated.json`` has their sums, those of dropped rows too, and the
    price. See :class:`dragoman.shared.phases.sharded.Sharded`: what was answered is not asked again after a stop, but
    for the shard that was under way.

    Args:
        server: of the language model.
        manifests: what to translate, as paths or patterns.
        prompt: what the model is told of each row: ``{text}`` stands for its text, ``{source_language}`` and
            ``{target_language}`` for the English names of its languages.
        reads: the column of the text.
        column: the text column that gets the answer.
        temperature: of sampling; 0 takes the most probable token.
        maximum_tokens: of an answer.
        options: further fields of the request, ``{seed: 1}`` for example.
        quality: what answers must be like to be kept; lengths are counted in characters. Answers that are empty, cut,
            or refused by the server are dropped in any case.
        shard_rows: how many rows are answered before they are safe on disk.

    Raises:
        UsageError: for a prompt, columns or a condition that make no sense.
    """

    def __init__(
        self,
        *,
        server: Server,
        manifests: list[str],
        prompt: str = PROMPT,
        reads: str = "source_text",
        column: str = "target_text",
        temperature: NonNegativeFloat = 0.0,
        maximum_tokens: PositiveInt = 1024,
        options: dict[str, Any] | None = None,
        quality: Quality | None = None,
        shard_rows: PositiveInt = 200,
    ) -> None:
        quality = quality or Quality()
        super().__init__(manifests=manifests, shard_rows=shard_rows, maximum_dropped=quality.maximum_dropped)
        if prompt.count("{text}") != 1:
            raise UsageError(f"prompt must have {{text}} once: {prompt!r}")
        for name in (reads, column):
            if not name.endswith("_text"):
                raise UsageError(f"reads and column must be columns of text, whose names end in _text, not {name!r}")
        if quality.minimum_score is not None:
            raise UsageError("quality.minimum_score: an answer has no score")
        self.server = server
        self.prompt = prompt
        self.reads = reads
        self.column = column
        self.request = {"temperature": temperature, "max_tokens": maximum_tokens} | (options or {})
        self.quality = quality

    def made_by(self, workspace: Workspace) -> dict[str, str]:
        """Return the model and what it is told."""
        told = {"prompt": self.prompt, "reads": self.reads, "column": self.column} | self.request
        return {"model": self.server.model, "request": json.dumps(told, sort_keys=True)}

    def columns(self, manifest: Manifest) -> dict[str, Any]:
        """Return what is known of an answer, and the text."""
        return {self.column: pa.string()} | COLUMNS

    def noted(self, makers: dict[str, str], shards: Sequence[Shard]) -> dict[str, Any]:
        """Return the model and the request, the tokens and their price."""
        rows = [row for shard in shards for row in Manifest.open(shard.path)]
        tokens = {name: sum(row[name] for row in rows) for name in ("prompt_tokens", "answer_tokens")}
        told = makers | {"address": self.server.address} | tokens
        if self.server.prices is not None:
            each = zip(tokens.values(), self.server.prices, strict=True)
            told["price"] = sum(count * price / 1e6 for count, price in each)
        return told

    def made(self, shard: Shard, workspace: Workspace) -> Iterator[Row]:
        """Yield the rows of a shard with their answers.

        Raises:
            DataError: if a row lacks its text or a language of the prompt, or the server gives no answer.
        """
        rows = [shard.manifest[number] for number in shard.rows]
        prompts = [self._prompt(row, shard.manifest) for row in rows]
        answers = self.server.answers(prompts, self.request)
        for row, answer in zip(rows, answers, strict=True):
            yield row | {
                self.column: answer.text,
                "model": self.server.model,
                "made_from": shard.manifest.fingerprint,
                "prompt_tokens": answer.prompt_tokens,
                "answer_tokens": answer.answer_tokens,
                DROPPED: self._reason(row, answer),
            }

    def _prompt(self, row: Row, manifest: Manifest) -> str:
        text = str(row.get(self.reads) or "")
        if not text.strip():
            raise DataError(f"{manifest.path}: row {row['id']!r} has no {self.reads}, which the prompt holds")
        return with_languages(self.prompt, row).replace("{text}", text)

    def _reason(self, row: Row, answer: Answer) -> str:
        """Say why an answer is dropped, "" if it is kept."""
        if answer.ended != "stop":
            return "cut" if answer.ended == "length" else answer.ended
        return self.quality.reason(
            score=0.0, tokens=len(answer.text), inputs=[len(row[self.reads])], seconds=row["duration"]
        )
