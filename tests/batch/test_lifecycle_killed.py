"""Promise 7 for archive, restore and reap: kill -9 after any step; the next run ends in the same state, by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.model.memory import Draft
from tests.batch.lifecycle_parts import Lifecycle, lifecycle_of
from tests.forks import ended

# Runs a chore that kills itself with -9 just after the named step, wherever that step is defined.
VICTIM = """
import os, signal, sys
from pathlib import Path
from core.adapters.fsspec_blobs import FsspecBlobs
from core.adapters.qdrant_edge import EdgeIndex
from core.batch import archive, erase, reap
from core.record import archives, erasures, reaping
from core.record.vault import Vault
from tests.batch.lifecycle_parts import lifecycle_of
chore, step = sys.argv[3:5]
places = (EdgeIndex, FsspecBlobs, archives, reaping, erasures, archive, reap, erase, Vault)
named, _, step = step.rpartition(".")
owner = next(one for one in places if hasattr(one, step) and one.__name__.endswith(named))
original = getattr(owner, step)
def then_die(*arguments, **named):
    result = original(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, step, then_die)
life = lifecycle_of(sys.argv[1], Path(sys.argv[2]))
{"archive": life.archive, "reap": life.reap, "restore": lambda: life.restore("a", "b"),
 "erase": lambda: life.erase(subject="ana"), "erase all": life.erase}[chore]()
"""
TEXT = "a long text about green tea, and about what there is to drink when there is none"


def killed(life: Lifecycle, chore: str, step: str, root: Path) -> Lifecycle:
    """A process that does the chore dies after the step; what a new one has to work with."""
    url = life.url
    life.close()
    assert ended(VICTIM, url, str(root), chore, step) == -9
    return lifecycle_of(url, root)


def prepared(url: str, root: Path) -> Lifecycle:
    life = lifecycle_of(url, root)
    drafts = [Draft(id=one, content=f"{TEXT} ({one})", subject="ana") for one in ("a", "b")]
    list(life.writer.write_many("t", [*drafts, Draft(id="other", content=f"{TEXT} (other)")]))
    life.parts.drain()
    life.age(ids=["a", "b"])
    return life


def whole(life: Lifecycle) -> None:
    """Every memory can be read, and every stub has exactly its object."""
    for one in ("a", "b", "other"):
        assert life.get(one).content == f"{TEXT} ({one})"


@pytest.mark.parametrize("step", ["put", "announce", "put_many", "_commit", "commit"])
def test_an_archiver_killed_after_any_step_leaves_one_complete_copy(
    database_url: str, tmp_path: Path, step: str
) -> None:
    life = prepared(database_url, tmp_path)
    life = killed(life, "archive", step, tmp_path)
    whole(life)
    life.archive()
    whole(life)
    life.parts.drain()
    life.parts.assert_in_step()
    assert {row["id"] for row in life.sql("SELECT id FROM memory WHERE tier = 'archive'")} == {"a", "b"}
    life.arrived(days=3)
    life.reap()
    assert len(life.objects()) == 2
    whole(life)
    life.close()


@pytest.mark.parametrize("step", ["get_many", "restore"])
def test_a_restore_killed_after_any_step_can_be_done_again(database_url: str, tmp_path: Path, step: str) -> None:
    life = prepared(database_url, tmp_path)
    life.archive()
    life.parts.drain()
    life = killed(life, "restore", step, tmp_path)
    whole(life)
    life.restore("a", "b")
    whole(life)
    assert {row["tier"] for row in life.sql("SELECT tier FROM memory")} == {"warm"}
    life.parts.drain()
    life.parts.assert_in_step()
    life.close()


@pytest.mark.parametrize(
    "step",
    [
        "expire",
        "purgeable",
        "delete",
        "stamps",
        "FsspecBlobs.purge",
        "drop_objects",
        "reaping.purge",
        "mark_orphans",
        "still_orphans",
    ],
)
def test_a_reaper_killed_after_any_step_is_resumed_by_the_next(database_url: str, tmp_path: Path, step: str) -> None:
    life = prepared(database_url, tmp_path)
    life.archive()
    life.restore("b")
    life.parts.drain()
    life.sql("UPDATE memory SET expires_at = now() WHERE id = 'a'")
    life.arrived(days=3)
    if step in ("mark_orphans", "still_orphans"):
        life.sql("UPDATE memory SET expires_at = NULL")
    life = killed(life, "reap", step, tmp_path)
    life.sql("UPDATE memory SET expires_at = now() WHERE id = 'a' AND deleted_at IS NULL")
    life.sql("UPDATE archive_object SET swept_at = now() - interval '2 hours' WHERE swept_at IS NOT NULL")
    life.reap()
    life.parts.drain()
    life.parts.assert_in_step()
    assert {row["id"] for row in life.sql("SELECT id FROM memory")} == {"b", "other"}
    assert {row["id"] for row in life.sql("SELECT id FROM tombstone")} == {"a"}
    assert life.objects() == []
    assert life.get("b").content == f"{TEXT} (b)"
    life.close()


@pytest.mark.parametrize(
    "step", ["begin", "erase_rows", "delete", "FsspecBlobs.purge", "drop_objects", "collect", "removed", "look", "end"]
)
def test_an_erasure_killed_after_any_step_is_resumed_and_ends_gone(
    database_url: str, tmp_path: Path, step: str
) -> None:
    life = prepared(database_url, tmp_path)
    life.archive()
    life.parts.drain()
    life.arrived()
    life = killed(life, "erase", step, tmp_path)
    receipt = life.erase(subject="ana").receipt
    assert receipt is not None
    assert (receipt["outcome"], receipt["memories"]) == ("gone", 2)
    assert {row["id"] for row in life.sql("SELECT id FROM memory")} == {"other"}
    assert life.objects() == []
    life.parts.drain()
    life.parts.assert_in_step()
    life.close()


@pytest.mark.parametrize("step", ["destroy", "erase_tenant", "give_up", "scroll", "bare"])
def test_erasing_all_killed_after_any_step_is_resumed_and_ends_gone(
    database_url: str, tmp_path: Path, step: str
) -> None:
    life = prepared(database_url, tmp_path)
    life.archive()
    life.parts.drain()
    life.arrived()
    life = killed(life, "erase all", step, tmp_path)
    life.sql("UPDATE erasure SET pending_until = now()")
    receipt = life.erase().receipt
    assert receipt is not None
    assert (receipt["outcome"], receipt["memories"]) == ("gone", 3)
    assert life.sql("SELECT id FROM memory") == []
    assert life.objects() == []
    assert life.parts.stamps() == {}
    life.close()
