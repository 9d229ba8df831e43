"""The Qdrant adapter for the contract: on the client library's local mode always, on a server where one is named."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qdrant_client import QdrantClient

from core.adapters.qdrant_requests import QdrantOptions
from core.adapters.qdrant_server import QdrantIndex
from core.errors import Conflict
from core.ports import VectorIndex

URL = os.environ.get("QDRANT_URL", "")
NO_SERVER = "no Qdrant server: QDRANT_URL is not set"

# Tests that say nothing on local mode, and why. Everything else must pass there.
LOCAL_MODE_DIFFERS = {
    "test_big_batches_arrive_whole_with_versions_alike_and_apart[local_mode-5000]": (
        "local mode reads every point for every filtered write: two minutes for 5,000 (600 do run)"
    ),
}


class OneAtATime:
    """A client whose calls take turns: local mode has no lock, a server applies each request under its own."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._turn = threading.RLock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            with self._turn:
                return getattr(self._client, name)(*given, **named)

        return call


class Apart:
    """An index whose names all begin with one prefix, so that a shared server's other names are left alone."""

    def __init__(self, index: QdrantIndex, client: Any) -> None:
        self._index = index
        self._client = client
        self._prefix = f"contract-{uuid.uuid4().hex[:8]}-"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda first, *given: getattr(self._index, name)(self._prefix + first, *given)

    def collections(self) -> frozenset[str]:
        names = self._index.collections()
        return frozenset(name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix))

    def alias(self, alias: str) -> str | None:
        named = self._index.alias(self._prefix + alias)
        return None if named is None else named.removeprefix(self._prefix)

    def point_alias(self, alias: str, collection: str, expected: str | None) -> None:
        believed = None if expected is None else self._prefix + expected
        try:
            self._index.point_alias(self._prefix + alias, self._prefix + collection, believed)
        except Conflict as refusal:
            current = refusal.details.get("current")
            raise Conflict(str(refusal), current=current and current.removeprefix(self._prefix)) from refusal

    def close(self) -> None:
        for name in self.collections():
            self._client.delete_collection(self._prefix + name)  # its aliases go with it
        self._index.close()


def local_mode(_root: Path) -> VectorIndex:
    """The client library's own imitation of a server: brute force, in this process."""
    client: Any = OneAtATime(QdrantClient(":memory:"))
    return QdrantIndex(QdrantOptions(url=""), client)


def connected() -> QdrantClient:
    """A client for the server at QDRANT_URL (with the key in QDRANT_API_KEY, if any)."""
    return QdrantClient(url=URL, api_key=os.environ.get("QDRANT_API_KEY"), check_compatibility=False)


def server(_root: Path) -> VectorIndex:
    """That server, reached by the adapter's own connection."""
    options = QdrantOptions(url=URL, api_key=os.environ.get("QDRANT_API_KEY"))
    index: Any = Apart(QdrantIndex(options), connected())
    return index  # type: ignore[no-any-return]
