"""Promise 7 for reconcile: kill -9 after any step; run again, the stores are in step, and nothing was done twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.model.drift import Kind, Verdict
from tests.batch.drifting import by_kind, drifting
from tests.forks import ended

# Looks and works off the queue in a process that kills itself with -9 just after a step was done for the n-th time.
VICTIM = """
import os, signal, sys
from pathlib import Path
import core.record.drift as record
from core.adapters.qdrant_edge import EdgeIndex
from core.index.drift import Comparison
from core.record.backfill import Backfill
from core.record.orphans import Orphans
from tests.batch.drifting import drifting
url, root, step, times = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
owner = next(one for one in (Orphans, Backfill, Comparison, EdgeIndex, record) if hasattr(one, step))
original = getattr(owner, step)
left = [times]
def then_die(*arguments, **named):
    result = original(*arguments, **named)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, step, then_die)
drift = drifting(url, root)
drift.mend()
"""
STEPS = [
    *(("fold", 1), ("count", 1), ("disagreeing", 1), ("look_again", 1), ("walk", 1), ("recount", 1)),
    *(("enqueue", 1), ("add", 1), ("keep", 1), ("keep", 3), ("due", 1), ("delete", 1), ("drop", 1)),
]


@pytest.mark.parametrize(("step", "times"), STEPS)
def test_a_reconcile_killed_after_any_step_is_finished_by_the_next(
    database_url: str, tmp_path: Path, step: str, times: int
) -> None:
    before = drifting(database_url, tmp_path)
    before.write(60)
    if step == "recount":
        before.index_report()
        before.sql("UPDATE point_digest SET points = points + 1, digest = digest + 5")
    else:
        before.lose("m0001", "m0002")
        before.add_orphans(2)
        before.turn_to("m0003", 7)
    before.close()
    assert ended(VICTIM, database_url, str(tmp_path), step, str(times)) == -9
    after = drifting(database_url, tmp_path)
    report = after.mend()
    assert report.verdict is not Verdict.SKIPPED
    assert set(by_kind(report)) <= {Kind.MISSING, Kind.ORPHAN, Kind.AHEAD, Kind.FIGURES}
    after.assert_in_step()
    assert after.embedded() <= 3
    assert after.index_report().verdict is Verdict.CLEAN
    after.close()
