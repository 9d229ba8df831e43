"""Embeddings by batch jobs: the Files and Batches API of the OpenAI protocol (platform.openai.com/docs/guides/batch).

A job is a file of lines, each a request with a `custom_id`; results come as such files, in any order. Neither
upload nor create can be made idempotent by the protocol, so both are given a name of ours (the file's name, the
batch's metadata) by which they are found again in the provider's lists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, BinaryIO, Literal

from core.adapters.openai_answers import answer_of, normalised
from core.adapters.openai_client import Asked, OpenAIClient
from core.adapters.openai_failures import names_in, of_answer
from core.adapters.openai_options import ProviderOptions, extra_body
from core.errors import BadAnswer, EngineError, Misconfigured, NotFound, Unavailable
from core.model.space import EmbeddingSpace
from core.ports import BatchLimits, BatchResult, BatchState

ENDPOINT = "/v1/embeddings"
WINDOW: Literal["24h"] = "24h"
NEVER = datetime.min.replace(tzinfo=UTC)  # nothing in a line says when it may be tried again
OURS = "memory_job"  # the key of a batch's metadata that holds its name
TRANSFER_SECONDS = 1800.0  # of a whole file, up or down
SILENCE_SECONDS = 60.0
ANSWER_BYTES = 20_000_000
BYTES_A_NUMBER = 40
BYTES_AROUND = 100_000
PAGES = 100
BATCHES_A_PAGE, FILES_A_PAGE = 100, 1000
SLACK = timedelta(hours=1)  # between the provider's clock and ours
# A line's end to many readers, though not to JSON Lines.
LINE_ENDS = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"})

_PHASES: dict[str, Literal["running", "completed", "expired", "cancelled", "failed"]] = {
    "validating": "running",
    "in_progress": "running",
    "finalizing": "running",
    "cancelling": "running",
    "completed": "completed",
    "expired": "expired",
    "cancelled": "cancelled",
    "failed": "failed",
}


class OpenAIBatches:
    """Batch jobs of one model at one provider. Opening it is cheap and sends nothing. Thread-safe."""

    def __init__(self, options: ProviderOptions, *, now: Callable[[], datetime] | None = None) -> None:
        if options.batch_inputs is None or options.batch_bytes is None:
            raise Misconfigured(f"{options.name} has no batch jobs for embeddings that are known of")
        self._client = OpenAIClient(options, now)
        self._options = options
        self._space = options.space
        self._limits = BatchLimits(inputs=options.batch_inputs, bytes=options.batch_bytes, tokens=options.batch_tokens)

    @property
    def space(self) -> EmbeddingSpace:
        """The space its vectors are in."""
        return self._space

    @property
    def limits(self) -> BatchLimits:
        """What a job takes at the most."""
        return self._limits

    def line(self, key: str, text: str) -> bytes:
        """The line that asks for the vector of a text, just as a request of its own would."""
        options = self._options
        body = {"model": options.model, "input": text, "encoding_format": options.encoding_format}
        request = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body | extra_body(options, "document")}
        written = json.dumps(request, ensure_ascii=False, separators=(",", ":")).translate(LINE_ENDS)
        return written.encode() + b"\n"

    def submit(self, name: str, file: BinaryIO) -> str:
        """Upload the file and start a job of it; its id."""
        told = self._told(
            lambda client, said: client.files.with_streaming_response.create(
                file=(name, file, "application/jsonl"), purpose="batch", **said
            ),
            seconds=TRANSFER_SECONDS,
        )
        return self._create(name, self._id_of(told))

    def found(self, name: str, since: datetime) -> str | None:
        """The job of this name, made now of its file if that alone was sent. See the port."""
        oldest = (since - SLACK).timestamp()
        for batch in self._listed("batches", oldest, limit=BATCHES_A_PAGE):
            known = batch.get("metadata")
            if isinstance(known, dict) and known.get(OURS) == name:
                return self._id_of(batch)
        for file in self._listed("files", oldest, limit=FILES_A_PAGE, purpose="batch", order="desc"):
            if file.get("filename") == name:
                return self._create(name, self._id_of(file))
        return None

    def poll(self, job: str) -> BatchState:
        """How a job stands now. Raises NotFound for one that is not known there."""
        told = self._told(lambda client, said: client.batches.with_streaming_response.retrieve(job, **said), known=job)
        phase = _PHASES.get(str(told.get("status")))
        if phase is None:
            raise BadAnswer(f"{self._options.name} tells a state of a batch job that is not known")
        counts, errors = told.get("request_counts"), told.get("errors")
        done = counts.get("completed") if isinstance(counts, dict) else None
        files = (told.get("output_file_id"), told.get("error_file_id"))
        sent = told.get("input_file_id")
        return BatchState(
            phase=phase,
            done=done if type(done) is int else 0,
            sent=sent if isinstance(sent, str) else None,
            files=tuple(file for file in files if isinstance(file, str) and file),
            reason=", ".join(names_in(errors)[:4]) or None,
        )

    def results(self, state: BatchState) -> Iterator[BatchResult]:
        """Results from the job's files, as they come. Raises NotFound for a file that is gone."""
        for file in state.files:
            for line in self._lines(file):
                if (found := self._result(line)) is not None:
                    yield found

    def cancel(self, job: str) -> None:
        """Ask for the end of a job; one that ended already, or is not known, is left alone."""
        try:
            self._told(lambda client, said: client.batches.with_streaming_response.cancel(job, **said), known=job)
        except NotFound:
            return
        except EngineError as problem:
            if problem.details.get("status") not in (400, 409):  # it has ended meanwhile
                raise

    def discard(self, state: BatchState) -> None:
        """Have the job's files deleted. Raises for the first that cannot be, once all were tried."""
        failed: EngineError | None = None
        for file in (*state.files, *([state.sent] if state.sent else [])):
            try:
                self._told(partial(_delete, file), known=file)
            except NotFound:
                continue
            except EngineError as problem:
                failed = failed or problem
        if failed is not None:
            raise failed

    def close(self) -> None:
        """Close the connections; calls under way fail with Unavailable, and so does every later one."""
        self._client.close()

    def _create(self, name: str, file: str) -> str:
        return self._id_of(
            self._told(
                lambda client, said: client.batches.with_streaming_response.create(
                    input_file_id=file, endpoint=ENDPOINT, completion_window=WINDOW, metadata={OURS: name}, **said
                )
            )
        )

    def _listed(self, what: str, oldest: float, **asked: Any) -> Iterator[dict[str, Any]]:
        """Entries of a list, newest first, back to a moment. Raises Unavailable when there are too many to say."""
        after: dict[str, str] = {}
        for _ in range(PAGES):
            page = self._told(partial(_list, what, asked | after))
            entries = [one for one in page.get("data") or [] if isinstance(one, dict)]
            for entry in entries:
                if _moment(entry) < oldest:
                    return
                yield entry
            if not entries or page.get("has_more") is not True:
                return
            after = {"after": self._id_of(entries[-1])}
        raise Unavailable(f"{self._options.name} has too many {what} to look one up")

    def _told(self, asked: Asked, *, seconds: float | None = None, known: str | None = None) -> dict[str, Any]:
        """The object that is answered. `known`: with this id, a 404 says that there is no such thing."""
        limit = self._options.document_timeout.total_seconds() if seconds is None else seconds
        silence = None if seconds is None else SILENCE_SECONDS
        with _not_found(known):
            body = b"".join(self._bounded(self._client.pieces(asked, seconds=limit, count=1, silence=silence)))
        try:
            told = json.loads(body)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            raise BadAnswer(f"{self._options.name} answered something that is no JSON object")
        return told

    def _bounded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        room = ANSWER_BYTES
        for piece in pieces:
            room -= len(piece)
            if room < 0:
                raise BadAnswer(f"{self._options.name} answered more than {ANSWER_BYTES} bytes")
            yield piece

    def _lines(self, file: str) -> Iterator[bytes]:
        """The lines of a file as they come, the last one also without an end."""
        longest = self._options.width * BYTES_A_NUMBER + BYTES_AROUND
        rest = bytearray()
        with _not_found(file):
            for piece in self._client.pieces(
                lambda client, said: client.files.with_streaming_response.content(file, **said),
                seconds=TRANSFER_SECONDS,
                count=1,
                silence=SILENCE_SECONDS,
            ):
                rest += piece
                *whole, last = rest.split(b"\n")
                yield from map(bytes, whole)
                rest = bytearray(last)
                if len(rest) > longest:
                    raise BadAnswer(f"{self._options.name} answered a line of more than {longest} bytes")
        if rest:
            yield bytes(rest)

    def _result(self, line: bytes) -> BatchResult | None:
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            return None
        key = told.get("custom_id") if isinstance(told, dict) else None
        if not isinstance(key, str):
            return None
        answer = told.get("response")
        status = answer.get("status_code") if isinstance(answer, dict) else None
        if type(status) is not int or not isinstance(answer, dict):
            said = ", ".join(names_in(told.get("error"))[:4]) or "nothing said"
            return BatchResult(key, None, problem=Unavailable(f"{self._options.name} did not get to it ({said})"))
        body = answer.get("body")
        if status != 200:
            told_so = json.dumps(body).encode()
            refusal = of_answer(status, {}, told_so, provider=self._options.name, count=1, now=NEVER)
            return BatchResult(key, None, problem=refusal)
        return self._vector(key, body)

    def _vector(self, key: str, body: Any) -> BatchResult:
        options = self._options
        try:
            found = answer_of(
                body if isinstance(body, dict) else {}, count=1, width=options.width, provider=options.name
            )
        except BadAnswer as problem:
            return BatchResult(key, None, problem=problem)
        vector = (normalised(found.vectors) if options.normalise else found.vectors)[0]
        return BatchResult(key, vector, found.tokens or 0)

    def _id_of(self, told: dict[str, Any]) -> str:
        found = told.get("id")
        if not isinstance(found, str) or not found:
            raise BadAnswer(f"{self._options.name} answered something without an id")
        return found


class _not_found:  # noqa: N801  reads as a block
    """A block in which a 404 says that there is no such thing, where `known` names one."""

    def __init__(self, known: str | None) -> None:
        self._known = known

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if self._known is not None and isinstance(problem, Misconfigured) and problem.details.get("status") == 404:
            raise NotFound(f"the provider knows no {self._known[:80]!r}") from None


def _moment(entry: dict[str, Any]) -> float:
    """When an entry of a list was made; one that does not say counts as made now."""
    found = entry.get("created_at")
    return float(found) if isinstance(found, int | float) else float("inf")


def _delete(file: str, client: Any, said: dict[str, Any]) -> Any:
    return client.files.with_streaming_response.delete(file, **said)


def _list(what: str, asked: dict[str, Any], client: Any, said: dict[str, Any]) -> Any:
    return getattr(client, what).with_streaming_response.list(**asked, **said)
