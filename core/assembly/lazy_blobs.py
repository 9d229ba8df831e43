"""The object store, opened when it is first asked for: its libraries take half a second, and only chores need it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from core.errors import EngineError
from core.ports import BlobInfo, BlobStore


class LazyBlobs:
    """Implements the port `BlobStore` by another one. Thread-safe; closed once, opened or not."""

    def __init__(self, opening: Callable[[], BlobStore]) -> None:
        self._opening = opening
        self._opened: BlobStore | None = None
        self._lock = threading.Lock()

    def put(self, key: str, data: bytes) -> None:
        """See the port."""
        self._store().put(key, data)

    def put_many(self, objects: Mapping[str, bytes]) -> dict[str, EngineError]:
        """See the port."""
        return self._store().put_many(objects)

    def get(self, key: str) -> bytes:
        """See the port."""
        return self._store().get(key)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """See the port."""
        return self._store().get_many(keys)

    def stat(self, key: str) -> BlobInfo | None:
        """See the port."""
        return self._store().stat(key)

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """See the port."""
        return self._store().list(prefix)

    def delete(self, key: str) -> None:
        """See the port."""
        self._store().delete(key)

    def delete_many(self, keys: Sequence[str]) -> None:
        """See the port."""
        self._store().delete_many(keys)

    def close(self) -> None:
        """Close the store, if it was opened."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()

    def _store(self) -> BlobStore:
        with self._lock:
            if self._opened is None:
                self._opened = self._opening()
            return self._opened
