"""The file of a batch job while it is filled and sent: on disk without a name, so that nothing outlives the process."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from core.ports import BatchLimits

RENEW_SECONDS = 5.0
IN_MEMORY = 4_000_000


class JobFile:
    """Lines for one job, within a provider's limits and `tokens` (None: any number). Closed by leaving its block."""

    def __init__(self, limits: BatchLimits, tokens: int | None) -> None:
        self._limits = limits
        self._room = tokens
        self._file: Any = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  closed in __exit__
        self.inputs = 0
        self.tokens = 0
        self.bytes = 0

    def __enter__(self) -> JobFile:
        return self

    def __exit__(self, *what_happened: object) -> None:
        self._file.close()

    @property
    def full(self) -> bool:
        """Whether no further line fits for sure."""
        return self.inputs >= self._limits.inputs or (self._room is not None and self.tokens >= self._room)

    def fitting(self, lines: Sequence[tuple[bytes, int]]) -> int:
        """How many of these lines, each with its tokens, fit from the first one on."""
        inputs, size, tokens = self.inputs, self.bytes, self.tokens
        for number, (line, cost) in enumerate(lines):
            inputs, size, tokens = inputs + 1, size + len(line), tokens + cost
            over = inputs > self._limits.inputs or size > self._limits.bytes
            if over or (self._room is not None and tokens > self._room):
                return number
        return len(lines)

    def add(self, line: bytes, tokens: int) -> None:
        """One more line."""
        self._file.write(line)
        self.inputs += 1
        self.tokens += tokens
        self.bytes += len(line)

    def reader(self, renew: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> BinaryIO:
        """The file from its beginning; while it is read slowly, `renew` is called now and then, and may raise."""
        self._file.seek(0)
        return io.BufferedReader(_Renewing(self._file, renew, clock))


class _Renewing(io.RawIOBase):
    """Reads another file and calls `renew` every few seconds."""

    def __init__(self, file: Any, renew: Callable[[], None], clock: Callable[[], float]) -> None:
        self._file = file
        self._renew = renew
        self._clock = clock
        self._due = clock() + RENEW_SECONDS

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(place, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, room: Any) -> int:
        if self._clock() >= self._due:
            self._renew()
            self._due = self._clock() + RENEW_SECONDS
        piece = self._file.read(len(room))
        room[: len(piece)] = piece
        return len(piece)
