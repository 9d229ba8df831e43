"""A reader over the parts that write: an index of its own, the bundled model, and no cache."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.adapters.no_cache import NoCache
from core.read.reader import Reader
from tests.batch.conftest import Parts, assembled


@pytest.fixture
def parts(database_url: str, tmp_path: Path) -> Iterator[Parts]:
    with assembled(database_url, tmp_path / "vectors") as parts:
        yield parts


@pytest.fixture
def reader(parts: Parts) -> Iterator[Reader]:
    reader = Reader(parts.database, parts.index, NoCache(), lambda space: parts.embedder, time.monotonic)
    yield reader
    reader.close()
