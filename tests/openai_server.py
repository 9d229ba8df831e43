"""A local HTTP server that speaks the embeddings part of the OpenAI protocol, and fails as a test says.

It is no fake of a port: what is tested against it is the real client. `told` decides on each request: it is
given the decoded body and returns what goes wrong (`Fault`), or None. Other files add other endpoints by
`routes`: a path, and what answers there (its status, or what goes wrong, and its body).
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

Rows = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong with one answer; what is not said is as usual.

    `rows` changes the list of embeddings before it is sent, `whole` the answer around it. `body` is sent in
    its place, as it is. `cut` sends that many bytes of what was announced and hangs up; `reset` breaks the
    connection without an answer; `drip` sends byte by byte, with that many seconds between.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    delay: float = 0.0
    rows: Callable[[Rows], Rows] | None = None
    whole: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    cut: int | None = None
    drip: float = 0.0
    reset: bool = False


@dataclass(frozen=True)
class Request:
    """What was asked: the path with its query, headers by lower-case names, and the decoded body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    method: str = "POST"

    @property
    def texts(self) -> list[str]:
        """The texts that were sent."""
        given = self.body["input"]
        return [given] if isinstance(given, str) else given


def error_body(code: str | None = None, kind: str = "invalid_request_error", **more: Any) -> dict[str, Any]:
    """An error as OpenAI words it; its sentence quotes what was sent, as sentences may."""
    return {"error": {"message": "no: SECRET-INPUT is not taken", "type": kind, "param": None, "code": code, **more}}


def refusing(marker: str, *, status: int = 400) -> Callable[[dict[str, Any]], Fault | None]:
    """Refuses every request with a text that contains `marker`, without saying which."""
    return lambda body: Fault(status=status, body=error_body()) if marker in json.dumps(body["input"]) else None


def at_most(items: int) -> Callable[[dict[str, Any]], Fault | None]:
    """Refuses requests of more than `items` texts, for their size."""
    too_many = Fault(status=413, body=error_body("request_too_large"))
    return lambda body: too_many if len(body["input"]) > items else None


class OpenAIServer(ThreadingHTTPServer):
    """Listens on a port of its own from the start. Set `told` at any time; read `requests`. Close with `stop`."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, dimensions: int = 32) -> None:
        self.dimensions = dimensions
        self.requests: list[Request] = []
        self.told: Callable[[dict[str, Any]], Fault | None] = lambda body: None
        self.routes: dict[str, Callable[[Request], tuple[int | Fault, Any]]] = {}
        self.at_once = 0
        self.most_at_once = 0
        self.counting = threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def texts(self) -> list[str]:
        """Every text of every request for embeddings, in the order they came."""
        return [text for request in self.requests if "input" in request.body for text in request.texts]

    def stop(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()

    def handle_error(self, *given: Any) -> None: ...  # a client that stopped waiting

    def vector(self, text: str, width: int, model: str) -> list[float]:
        """Words hashed into a vector, so that texts that share words are near each other."""
        vector = np.zeros(width)
        for word in text.lower().split():
            digest = hashlib.blake2b(f"{model} {word}".encode(errors="replace")).digest()
            vector[int.from_bytes(digest[:4], "big") % width] += 1
        return [float(number) for number in (vector / np.linalg.norm(vector)).astype(np.float32)]

    def embeddings(self, request: Request, fault: Fault) -> dict[str, Any]:
        """The answer to a request for embeddings, with what goes wrong in its rows."""
        body, width = request.body, request.body.get("dimensions") or self.dimensions
        vectors = [self.vector(text, width, body["model"]) for text in request.texts]
        rows: Rows = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(vectors)]
        rows = fault.rows(rows) if fault.rows else rows
        if body.get("encoding_format") == "base64":
            for row in rows:
                row["embedding"] = in_base64(row["embedding"])
        tokens = sum(len(text.split()) for text in request.texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        whole = {"object": "list", "data": rows, "model": body["model"], "usage": usage}
        return fault.whole(whole) if fault.whole else whole


def in_base64(row: Any) -> Any:
    """A row of numbers as little-endian float32 in base64; anything else stays as it is."""
    if isinstance(row, list) and all(isinstance(number, int | float) for number in row):
        return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()
    return row


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept, as providers do
    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement
    server: OpenAIServer

    def do_POST(self) -> None:
        with self.server.counting:
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
        try:
            self.answer()
        finally:
            with self.server.counting:
                self.server.at_once -= 1

    do_GET = do_DELETE = do_POST  # noqa: N815

    def answer(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        known = self.headers.get("Content-Type", "").startswith("application/json") and sent
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, json.loads(sent) if known else {"raw": sent}, self.command)
        self.server.requests.append(request)
        path = self.path.partition("?")[0]
        if route := next((answers for begin, answers in self.server.routes.items() if path.startswith(begin)), None):
            status, result = route(request)
            self.send(status if isinstance(status, Fault) else Fault(status=status), result)
        elif not path.endswith("/embeddings"):
            self.send(Fault(status=404), error_body("unknown_url"))
        else:
            fault = self.server.told(request.body) or Fault()
            time.sleep(fault.delay)
            whole = self.server.embeddings(request, fault) if fault.body is None and not fault.reset else fault.body
            self.send(fault, whole)

    def send(self, fault: Fault, result: Any) -> None:
        if fault.reset:  # a zero linger time sends RST
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        text = result if isinstance(result, bytes) else json.dumps(result).encode()
        self.send_response(fault.status)
        for name, value in {"Content-Type": "application/json", **fault.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        with suppress(OSError):  # a client that stopped waiting
            if fault.drip:
                for at in range(len(text)):
                    self.wfile.write(text[at : at + 1])
                    time.sleep(fault.drip)
            else:
                self.wfile.write(text[: fault.cut])
        self.close_connection = self.close_connection or fault.cut is not None

    def log_message(self, *given: Any) -> None: ...
