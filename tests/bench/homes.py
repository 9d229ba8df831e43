"""A home of its own for a measurement, with whatever else it chooses, in the environment."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from core.assembly.stores import prepare_record, stop_embedded
from core.settings import load_settings
from tests.servers import homes_root


@contextmanager
def fresh_home(chosen: Mapping[str, str]) -> Iterator[None]:
    """Fresh embedded stores without a cache, and the settings `chosen` (by variable), until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="memory-bench-", dir=homes_root()) as folder:
        given = {"MEMORY_HOME": f"{folder}/home", "MEMORY_CACHE": "false", **chosen}
        os.environ.update(given)
        settings = load_settings()
        prepare_record(settings)
        try:
            yield
        finally:
            stop_embedded(settings)
            for name in given:
                del os.environ[name]
