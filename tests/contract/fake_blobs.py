"""An object store for tests. `failures`: what calls on a key (or listing a prefix) raise; under "", any call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from core.adapters.blob_keys import checked, checked_prefix
from core.errors import Conflict, EngineError, NotFound
from core.ports import BlobInfo


class FakeBlobs:
    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.failures: dict[str, EngineError] = {}

    def put(self, key: str, data: bytes) -> None:
        if self.objects.setdefault(self._asked(checked(key)), (data, datetime.now(UTC)))[0] != data:
            raise Conflict(f"other bytes are stored under {key}")

    def put_many(self, objects: Mapping[str, bytes]) -> dict[str, EngineError]:
        failed: dict[str, EngineError] = {}
        for key, data in objects.items():
            try:
                self.put(key, data)
            except EngineError as error:
                failed[key] = error
        return failed

    def get(self, key: str) -> bytes:
        if self._asked(checked(key)) not in self.objects:
            raise NotFound(f"no object {key}")
        return self.objects[key][0]

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        return {key: self.get(key) for key in keys if self.stat(key)}

    def stat(self, key: str) -> BlobInfo | None:
        found = self.objects.get(self._asked(checked(key)))
        return BlobInfo(key, len(found[0]), found[1]) if found else None

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        self._asked(checked_prefix(prefix))
        return (info for key in sorted(self.objects) if key.startswith(prefix) and (info := self.stat(key)))

    def delete(self, key: str) -> None:
        self.delete_many([key])

    def delete_many(self, keys: Sequence[str]) -> None:
        for key in [self._asked(checked(key)) for key in keys]:
            self.objects.pop(key, None)

    def close(self) -> None:
        """Nothing is held."""

    def _asked(self, key: str) -> str:
        if failure := self.failures.get("") or self.failures.get(key):
            raise failure
        return key
