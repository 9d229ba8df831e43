"""Promise 7 for snapshots and recovery: kill -9 after any step; run again, twice, they end in the same state."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.batch.keeping import Keeping, keep
from tests.batch.test_recover import assert_recovered
from tests.batch.test_snapshot import assert_whole
from tests.forks import ended

# Runs a chore that kills itself with -9 just after the named step was done for the n-th time.
VICTIM = """
import os, signal, sys
from datetime import timedelta
from pathlib import Path
import core.index.recovery as recovery
import core.index.snapshots.sweeping as sweeping
from core.adapters.fsspec_blobs import FsspecBlobs
from core.adapters.qdrant_edge import EdgeIndex
from core.index.recovery import Recovery
from core.index.snapshots.forgetting import Forgetter
from core.index.snapshots.shelf import Shelf
from core.index.snapshots.writing import Pass
from tests.batch.keeping import keep
url, root, chore, step, times = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
places = (Shelf, Recovery, Pass, EdgeIndex, FsspecBlobs, recovery)
owner = next(one for one in places if hasattr(one, step))
original = getattr(owner, step)
left = [times]
def then_die(*arguments, **named):
    result = original(*arguments, **named)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, step, then_die)
kept = keep(url, root)
if chore == "snapshot":
    kept.snapshot(compact_parts=1, keep=timedelta(0), grace=timedelta(0))
elif chore == "recover":
    kept.recover()
else:
    kept.forgetter().forget("t", ["m1", "m5"])
"""
SNAPSHOT = [
    *(("put_many", 1), ("put_many", 3), ("put_part", 2), ("stamps", 1)),
    *(("put_manifest", 1), ("drop", 1), ("drop", 2)),
]
RECOVER = [
    *(("create", 1), ("records", 1), ("upsert", 1), ("_write", 1)),
    *(("enqueue_for", 1), ("point_alias", 1)),
]
FORGET = [("put_part", 1), ("put_manifest", 1), ("purge", 1)]


def killed(kept: Keeping, chore: str, step: str, times: int) -> None:
    """The parts are closed first: an index folder has one holder."""
    kept.parts.index.close()
    assert ended(VICTIM, kept.url, str(kept.root), chore, step, str(times)) == -9


@pytest.mark.parametrize(("step", "times"), SNAPSHOT)
def test_a_snapshot_killed_after_any_step_is_finished_by_the_next(
    database_url: str, tmp_path: Path, step: str, times: int
) -> None:
    before = keep(database_url, tmp_path)
    before.write(50)
    before.snapshot()
    before.parts.writer.update("t", "m1", {"content": "said otherwise"}, 1)
    before.parts.writer.delete("t", "m2")
    before.write(30, first=50)
    before.snapshot(compact_parts=100)
    before.write(10, first=80)
    killed(before, "snapshot", step, times)
    after = keep(database_url, tmp_path)
    assert after.shelf().newest() is not None
    for _ in range(3):
        report = after.snapshot(compact_parts=1, compact_after=timedelta(0), keep=timedelta(0), grace=timedelta(0))
        assert not report.damaged
    assert_whole(after)
    assert "m2" not in after.ids_kept()
    named = {part.name for part in after.manifest().parts}
    assert {path.name.partition(".")[0] for path in after.files() if path.suffix == ".parquet"} == named
    after.close()
    before.parts.database.close()


@pytest.mark.parametrize(("step", "times"), RECOVER)
def test_a_recovery_killed_after_any_step_is_finished_by_the_next(
    database_url: str, tmp_path: Path, step: str, times: int
) -> None:
    before = keep(database_url, tmp_path)
    before.write(50)
    before.snapshot()
    before.write(5, first=50)
    before.parts.writer.delete("t", "m2")
    before.parts.drain()
    before.lose_collection()
    before.lose_alias()
    killed(before, "recover", step, times)
    after = keep(database_url, tmp_path)
    after.recover()
    after.drain()
    assert_recovered(after)
    assert sorted(after.parts.embedder.texts) in ([], [f"a note about {n}" for n in range(50, 55)])
    assert after.recover().figures.right == 54
    after.close()
    before.parts.database.close()


@pytest.mark.parametrize(("step", "times"), FORGET)
def test_an_erasure_killed_after_any_step_is_finished_by_the_next(
    database_url: str, tmp_path: Path, step: str, times: int
) -> None:
    before = keep(database_url, tmp_path)
    before.write(30)
    before.snapshot()
    killed(before, "forget", step, times)
    after = keep(database_url, tmp_path)
    after.forgetter().forget("t", ["m1", "m5"])
    assert after.ids_kept() == {f"m{n}" for n in range(30)} - {"m1", "m5"}
    assert after.shelf().newest() is not None
    after.close()
    before.parts.database.close()
