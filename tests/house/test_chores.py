"""A chore keeps one name on every floor."""

from __future__ import annotations

from tests.house.source import ROOT

CHORES = {  # grows with each chore that is built
    *("archive", "batch_lane", "embed", "erase", "quality", "reap", "reconcile", "recover", "relay", "reindex"),
    *("rotate", "snapshot"),
}
COMPOSED_FLOWS = {"mend", "nightly", "tend"}  # made of chores, and no chores
SHARED_BY_TASKS = {"boundary", "engine", "events", "ledger", "mending", "pieces", "report", "runner", "seen", "tending"}
MORE_TESTS = {
    "erase_all",
    "erase_meanwhile",
    *("batch_lane_endings", "batch_lane_killed", "keeping_killed", "lifecycle_killed"),
    *("embed_killed", "embed_use", "embed_discreet", "embed_overload", "embed_throttled", "embed_turns"),
    *("embed_edited", "archive_drift", "recover_engines", "reap_graph"),
    *(f"reconcile_{part}" for part in ("faults", "killed", "beside")),
    *(f"reindex_{part}" for part in ("gate", "swap", "killed", "storm", "orders", "engines", "by_jobs")),
}


def stems(pattern: str) -> set[str]:
    """Names of the files that match, without ending; private ones and `__init__` left out."""
    return {path.stem for path in ROOT.glob(pattern) if not path.stem.startswith("_")}


def test_every_chore_of_the_design_is_there() -> None:
    assert stems("core/batch/*.py") >= CHORES


def test_a_chore_has_its_task_its_flow_and_its_test() -> None:
    chores = stems("core/batch/*.py")
    assert len(chores) >= len(CHORES)
    assert stems("tasks/*.py") - SHARED_BY_TASKS == chores
    assert stems("flows/*.py") - COMPOSED_FLOWS == chores
    tests = {stem.removeprefix("test_") for stem in stems("tests/batch/test_*.py")}
    assert tests - MORE_TESTS == chores
