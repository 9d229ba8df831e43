"""Aliases for engines that have none: one small file each, replaced atomically, compared under a lock."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.adapters.file_lock import lock_within
from core.errors import Busy, Conflict, Unavailable

_SUFFIX = ".alias"
_POLL_SECONDS = 0.003


class AliasFiles:
    """The aliases below one folder. Reading takes no lock: a file is whole before it gets its name."""

    def __init__(self, root: Path, wait_seconds: float) -> None:
        self._root = root
        self._wait_seconds = wait_seconds

    def read(self, alias: str) -> str | None:
        """The collection an alias names, or None. Raises Unavailable for a file that is not ours."""
        try:
            text = (self._root / f"{alias}{_SUFFIX}").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            return str(json.loads(text)["collection"])
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"the file of alias {alias} is damaged") from error

    def naming(self, collection: str) -> list[str]:
        """The aliases that name a collection."""
        names = [path.name.removesuffix(_SUFFIX) for path in self._root.glob(f"*{_SUFFIX}")]
        return sorted(name for name in names if self.read(name) == collection)

    def point(self, alias: str, collection: str, expected: str | None) -> None:
        """Compare and set, to be called inside `locked`.

        Raises Conflict with `current` when the alias names something else than expected.
        """
        current = self.read(alias)
        if current == collection:
            return
        if current != expected:
            raise Conflict(f"alias {alias} names {current}, not {expected}", current=current)
        self._replace(self._root / f"{alias}{_SUFFIX}", json.dumps({"collection": collection}))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody moves an alias, or drops what one names, inside this block. Raises Busy.

        One lock for all aliases: a drop must know that none of them is being pointed at its collection.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._root / "aliases.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not lock_within(descriptor, self._wait_seconds, _POLL_SECONDS):
                raise Busy("another process is moving an alias")
            yield
        finally:
            os.close(descriptor)

    def _replace(self, path: Path, text: str) -> None:
        fresh = path.with_name(f"{path.name}.new")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        folder = os.open(self._root, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
