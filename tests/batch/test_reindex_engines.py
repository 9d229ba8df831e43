"""A reindex on every other engine of the port: the server's adapter (local mode, and a server where one is named)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from core.errors import Conflict
from core.model.generation import GenerationState as State
from core.model.memory import Draft
from core.ports import VectorIndex
from tests.batch.conftest import assemble
from tests.batch.reindexing import GRACE, Rig, execute, found, rig_of, write
from tests.contract.fake_index import MemoryIndex
from tests.contract.qdrant_engines import NO_SERVER, URL, local_mode, server

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")
ENGINES = [
    lambda root: MemoryIndex(),
    local_mode,
    pytest.param(server, marks=pytest.mark.skipif(not URL, reason=NO_SERVER)),
]


@pytest.fixture(params=ENGINES, ids=["fake", "local_mode", "server"])
def rig(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Rig]:
    engine: Callable[[Path], VectorIndex] = request.param
    parts = assemble(database_url, tmp_path, timedelta(seconds=60), engine(tmp_path))
    yield rig_of(parts)
    parts.index.close()
    parts.database.close()


def test_a_tenant_moves_rolls_back_moves_again_and_the_old_index_is_dropped(rig: Rig, database_url: str) -> None:
    write(rig, 30)
    first = rig.whole("new")
    rig.parts.writer.write("t", Draft(id="since", content="written since the swap"))
    rig.parts.writer.delete("t", "m004")
    rig.drain()
    rig.assert_in_step()
    assert rig.work.swapper.rollback("t", GRACE, uuid.uuid4(), {}, force=False) == 1
    assert found(rig, "written since the swap", 1) == ["since"]
    assert rig.work.swapper.rollback("t", GRACE, uuid.uuid4(), {}, force=False) == 2
    assert rig.parts.index.alias("t.live") == first.generation.collection
    with pytest.raises(Conflict):
        rig.remover.drop("t", 2)
    execute(database_url, "UPDATE generation SET retire_at = now() WHERE number = 1")
    assert rig.remover.sweep() == {}
    assert rig.generations() == {1: State.DROPPED, 2: State.LIVE}
    assert rig.parts.index.collections() == {first.generation.collection}
    rig.assert_in_step()


def test_a_stalled_swapper_is_refused(rig: Rig) -> None:
    write(rig, 20)
    stalled = rig.whole("new")
    last = rig.whole("other")
    with pytest.raises(Conflict):
        rig.parts.index.point_alias("t.live", stalled.generation.collection, stalled.live.collection)
    assert rig.parts.index.alias("t.live") == last.generation.collection
