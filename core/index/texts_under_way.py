"""Texts that some batch of this process is just embedding: another batch with the same text waits for its vector."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class TextsUnderWay:
    """Keeps batches with a text in common apart, from looking for its vector until that vector is stored.

    Each batch takes all its texts at once, so none waits for another while holding any. Thread-safe.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._taken: set[tuple[str, str]] = set()
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, collection: str, hashes: Iterable[str]) -> Iterator[None]:
        """Hold these texts of a collection for a block; after `patience` seconds of waiting, go on without.

        Going on costs an embedding at most, never a wrong vector.
        """
        wanted = {(collection, text_hash) for text_hash in hashes}
        with self._changed:
            ours = self._changed.wait_for(lambda: self._taken.isdisjoint(wanted), self._patience)
            held = wanted if ours else set()
            self._taken |= held
        try:
            yield
        finally:
            with self._changed:
                self._taken -= held
                self._changed.notify_all()
