"""Snapshot and recovery on the adapter of the server: in local mode, and on a server where one is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.model.memory import embedding_id
from core.ports import VectorIndex
from tests.batch.keeping import Keeping, keep
from tests.contract.qdrant_engines import NO_SERVER, URL, local_mode, server

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")
ENGINES = [local_mode, pytest.param(server, marks=pytest.mark.skipif(not URL, reason=NO_SERVER))]


@pytest.fixture(params=ENGINES, ids=["local_mode", "server"])
def kept(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Keeping]:
    engine: Callable[[Path], VectorIndex] = request.param
    keeping = keep(database_url, tmp_path, index=engine(tmp_path))
    yield keeping
    keeping.close()


def lose(kept: Keeping) -> None:
    """The collection goes, and the alias with it, as a server does it."""
    index: Any = kept.parts.index
    index._client.delete_collection(kept.generation().collection)


def test_a_lost_collection_comes_back_from_the_snapshot_and_nothing_kept_is_embedded_again(kept: Keeping) -> None:
    kept.write(60)
    assert kept.snapshot().rows == 60
    kept.write(5, text="written since", first=60)
    kept.parts.writer.delete("t", "m3")
    kept.drain()
    before = kept.parts.stamps()
    lose(kept)
    embedded = len(kept.parts.embedder.texts)
    found = kept.recover()
    assert (found.figures.restored, found.figures.enqueued) == (59, 5)
    kept.drain()
    assert len(kept.parts.embedder.texts) == embedded + 5
    assert kept.parts.stamps() == before
    assert kept.parts.index.alias(kept.generation().alias) == kept.generation().collection
    kept.parts.assert_in_step()


def test_points_lost_outdated_and_too_many_are_put_right(kept: Keeping) -> None:
    kept.write(30)
    kept.snapshot()
    before = kept.parts.stamps()
    points = [embedding_id("t", f"m{number}") for number in range(10)]
    kept.parts.index.delete(kept.generation().collection, dict.fromkeys(points, 1))
    found = kept.recover().figures
    assert (found.right, found.missing, found.restored, found.enqueued) == (20, 10, 10, 0)
    assert kept.parts.stamps() == before
    kept.parts.assert_in_step()
