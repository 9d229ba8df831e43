"""An HTTP server that records what is asked and answers as a Qdrant server does, or as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.contract.fake_qdrant_names import QdrantNames

INFO = json.loads("""{"status": "green", "optimizer_status": "ok", "segments_count": 1, "payload_schema": {},
"config": {"params": {"vectors": {"text": {"size": 4, "distance": "Cosine"}}},
"hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
"optimizer_config": {"deleted_threshold": 0.2, "default_segment_number": 1, "flush_interval_sec": 5}}}""")
Answer = tuple[int, Any, dict[str, str]]


class QdrantHttp(ThreadingHTTPServer):
    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.known = QdrantNames()
        self.told: Callable[[str], Answer | None] = lambda path: None
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def bodies(self, path: str) -> list[Any]:
        return [json.loads(body) for _, asked, _, body in self.requests if asked.split("?")[0] == path and body]

    def handle_error(self, *given: Any) -> None: ...  # a client that stopped waiting

    def usual(self, path: str, body: bytes) -> Answer:
        sent = json.loads(body) if body else {}
        if path == "/collections/aliases":
            lacking = self.known.change(sent["actions"])
            if self.known.dies_after is not None:
                return 503, {"status": {"error": "gone"}}, {}
            return (404, {"status": {"error": f"Not found: {lacking}"}}, {}) if lacking else (200, {"result": True}, {})
        done = {"status": "completed"}
        by_path = {"/collections/c.g1": True if body else INFO, "/collections/c.g1/index": done, **self.known.listed()}
        return 200, {"result": by_path.get(path, [done] * len(sent.get("operations", "")) or True)}, {}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        path, body = self.path.split("?")[0], self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        status, result, headers = server.told(path) or server.usual(path, body)
        text = result if isinstance(result, bytes) else json.dumps(result).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    do_PUT = do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *given: Any) -> None: ...
