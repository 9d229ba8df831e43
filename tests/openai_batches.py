"""The Files and Batches endpoints of the local OpenAI server, with every ending a test asks for.

A job waits until a test ends it (`finish`), or ends by itself as soon as it is made (`at_once`). `fate` says what
becomes of each line; `told` what goes wrong with a request to these endpoints.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.openai_server import Fault, OpenAIServer, Request, error_body

Fate = Callable[[int, str], str]
Lines = list[dict[str, Any]]

ENDINGS = {"completed": "completed_at", "expired": "expired_at", "cancelled": "cancelled_at", "failed": "failed_at"}


def fine(number: int, text: str) -> str:
    """Every line gets its vector."""
    return "fine"


class Batches:
    """Added to a server. `files` by id, `names` of them, `batches` by id, as the protocol shows them."""

    def __init__(self, server: OpenAIServer) -> None:
        self.server = server
        self.files: dict[str, bytes] = {}
        self.names: dict[str, tuple[str, int]] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.told: Callable[[Request], Fault | None] = lambda request: None
        self.at_once: str | None = None
        self.fate: Fate = fine
        self.truncate: int | None = None
        self.page = 100
        self.counter = itertools.count()
        self.lock = threading.Lock()
        server.routes["/v1/files"] = self.on_files
        server.routes["/v1/batches"] = self.on_batches

    @property
    def texts(self) -> list[str]:
        """Every text of every job, in the order they were made."""
        return [line["body"]["input"] for batch in self.batches.values() for line in self.lines(batch)]

    def lines(self, batch: dict[str, Any]) -> Lines:
        """The requests of a job."""
        return [json.loads(line) for line in batch["lines"].split(b"\n") if line]

    def finish(self, ending: str = "completed", fate: Fate | None = None, code: str = "invalid_json_line") -> None:
        """End every job that runs, with this fate for each line (None: `self.fate`)."""
        for batch in self.batches.values():
            if batch["status"] in ("validating", "in_progress", "cancelling"):
                self.end(batch, ending, fate or self.fate, code)

    def end(self, batch: dict[str, Any], ending: str, fate: Fate, code: str = "invalid_json_line") -> None:
        batch["status"] = ending
        batch[ENDINGS[ending]] = int(time.time())
        if ending == "failed":
            batch["errors"] = {"object": "list", "data": [{"code": code, "line": 3, "message": "SECRET-INPUT"}]}
            return
        good, bad = self.results(batch, fate)
        batch["request_counts"] = {"total": len(self.lines(batch)), "completed": len(good), "failed": len(bad)}
        for name, lines in (("output_file_id", good), ("error_file_id", bad)):
            if lines:
                batch[name] = self.keep(f"{name}.jsonl", b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def results(self, batch: dict[str, Any], fate: Fate) -> tuple[Lines, Lines]:
        """Lines of the output file and of the error file, in the order opposite to that of the requests."""
        good: Lines = []
        bad: Lines = []
        for number, line in enumerate(self.lines(batch)):
            body = line["body"]
            end = fate(number, body["input"])
            told = {"id": f"batch_req_{number}", "custom_id": line["custom_id"], "response": None, "error": None}
            if end in ("fine", "twice", "zeros", "short"):
                answer = self.server.embeddings(
                    Request("", {}, body), Fault(rows=lambda rows, end=end: bent(rows, end))
                )
                whole = told | {"response": {"status_code": 200, "request_id": "r", "body": answer}}
                good += [whole, whole] if end == "twice" else [whole]
            elif end.isdecimal():
                code = "insufficient_quota" if end == "402" else None
                bad.append(told | {"response": {"status_code": int(end), "body": error_body(code)}})
            elif end != "missing":
                bad.append(told | {"error": {"code": end, "message": "SECRET-INPUT"}})
        return good[::-1], bad[::-1]

    def keep(self, name: str, content: bytes) -> str:
        with self.lock:
            file = f"file-{next(self.counter)}"
            self.names[file] = (name, int(time.time()))
            self.files[file] = content
        return file

    def on_files(self, request: Request) -> tuple[int | Fault, Any]:
        return self.answered(request, self.about_files)

    def on_batches(self, request: Request) -> tuple[int | Fault, Any]:
        return self.answered(request, self.about_batches)

    def answered(
        self, request: Request, usual: Callable[[Request], tuple[int | Fault, Any]]
    ) -> tuple[int | Fault, Any]:
        """A fault with a body takes the place of what was asked; without one only the answer is lost."""
        fault = self.told(request)
        if fault is not None and fault.body is not None:
            return fault, fault.body
        result = usual(request)
        return result if fault is None else (fault, error_body())

    def about_files(self, request: Request) -> tuple[int | Fault, Any]:
        _, _, file = urlsplit(request.path).path.removeprefix("/v1/files").partition("/")
        if request.method == "POST":
            return 200, self.file(self.keep(*uploaded(request)))
        if not file:
            return 200, self.listed(request, [self.file(one) for one in self.files])
        name = file.removesuffix("/content")
        if name not in self.files:
            return 404, error_body("not_found")
        if request.method == "DELETE":
            del self.files[name]
            return 200, {"id": name, "object": "file", "deleted": True}
        if file.endswith("/content"):
            return Fault(cut=self.truncate), self.files[name]
        return 200, self.file(name)

    def file(self, file: str) -> dict[str, Any]:
        name, made = self.names[file]
        shown = {
            "id": file,
            "object": "file",
            "bytes": len(self.files[file]),
            "created_at": made,
            "status": "processed",
        }
        return {**shown, "filename": name, "purpose": "batch" if name.startswith("memory-") else "batch_output"}

    def about_batches(self, request: Request) -> tuple[int | Fault, Any]:
        parts = urlsplit(request.path).path.removeprefix("/v1/batches").strip("/").split("/")
        if parts == [""]:
            if request.method == "POST":
                return 200, shown(self.made(request.body))
            return 200, self.listed(request, [shown(one) for one in self.batches.values()])
        if parts[0] not in self.batches:
            return 404, error_body("not_found")
        batch = self.batches[parts[0]]
        if parts[1:] == ["cancel"]:
            if batch["status"] in ENDINGS:
                return 409, error_body()
            batch["status"] = "cancelling"
        return 200, shown(batch)

    def made(self, body: dict[str, Any]) -> dict[str, Any]:
        """A new job, as the protocol has it, with the lines of its file."""
        with self.lock:
            made = {
                "id": f"batch_{next(self.counter)}", "object": "batch", "status": "validating",
                "created_at": int(time.time()),
                "lines": self.files[body["input_file_id"]], "request_counts": {"total": 0, "completed": 0, "failed": 0},
                **body,
            }  # fmt: skip
            self.batches[made["id"]] = made
        if self.at_once:
            self.end(made, self.at_once, self.fate)
        return made

    def listed(self, request: Request, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """A page, newest first."""
        asked = parse_qs(urlsplit(request.path).query)
        purpose = asked.get("purpose", [None])[0]
        newest = [one for one in reversed(entries) if purpose is None or one["purpose"] == purpose]
        after = [at for at, one in enumerate(newest) if one["id"] == asked.get("after", [None])[0]]
        start = after[0] + 1 if after else 0
        return {
            "object": "list",
            "data": newest[start : start + self.page],
            "has_more": start + self.page < len(newest),
        }


def shown(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in batch.items() if name != "lines"}


def bent(rows: list[dict[str, Any]], how: str) -> list[dict[str, Any]]:
    """A row of zeros, or one that is too short; else as it is."""
    if how == "zeros":
        return [row | {"embedding": [0.0] * len(row["embedding"])} for row in rows]
    return [row | {"embedding": row["embedding"][:-1]} for row in rows] if how == "short" else rows


def uploaded(request: Request) -> tuple[str, bytes]:
    """Name and content of the file in a multipart form."""
    form, boundary = request.body["raw"], request.headers["content-type"].partition("boundary=")[2]
    for part in form.split(b"--" + boundary.encode()):
        head, _, content = part.partition(b"\r\n\r\n")
        if found := re.search(rb'filename="([^"]+)"', head):
            return found[1].decode(), content.removesuffix(b"\r\n")
    raise AssertionError("no file in the form")
