"""An object store that is opened when it is first used: its libraries take half a second, which most commands spare."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from core.errors import EngineError
from core.ports import BlobInfo, BlobStore
from core.record.objects import purge, versions


class LazyBlobs:
    """A `BlobStore` by `open`, called once by whoever comes first. Thread-safe. Any call may raise Misconfigured."""

    def __init__(self, open_store: Callable[[], BlobStore]) -> None:
        self._open = open_store
        self._lock = threading.Lock()
        self._opened: BlobStore | None = None

    def put(self, key: str, data: bytes) -> None:
        """See the port."""
        self._store().put(key, data)

    def put_many(self, objects: Mapping[str, bytes]) -> dict[str, EngineError]:
        """See the port. No objects: nothing is opened."""
        return self._store().put_many(objects) if objects else {}

    def get(self, key: str) -> bytes:
        """See the port."""
        return self._store().get(key)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """See the port. No keys: nothing is opened."""
        return self._store().get_many(keys) if keys else {}

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
        """See the port. No keys: nothing is opened."""
        if keys:
            self._store().delete_many(keys)

    def purge(self, keys: Sequence[str]) -> None:
        """See the port `KeepsVersions`; a store that keeps no versions removes its objects."""
        if keys:
            purge(self._store(), keys)

    def versions(self, prefix: str) -> Iterator[BlobInfo]:
        """See the port `KeepsVersions`; of a store that keeps no versions its objects."""
        return versions(self._store(), prefix)

    def close(self) -> None:
        """Close the store, if it was opened."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _store(self) -> BlobStore:
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened
