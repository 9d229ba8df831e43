"""The quality flow and its step in the nightly one: verdicts are kept as artifacts, and a failure hides no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

Remember = Callable[[str, int], None]


def run(name: str) -> Any:
    from flows.nightly import nightly
    from flows.quality import quality

    return {"quality": quality, "nightly": nightly}[name](return_state=True)


def spoil(database_url: str) -> None:
    with psycopg.connect(database_url) as admin:
        admin.execute("SET session_replication_role = replica")
        admin.execute("UPDATE memory SET scope = '' WHERE id = 'm1'")


def test_verdicts_are_kept_as_a_table_and_a_link(remember: Remember, home: Path) -> None:
    from prefect.artifacts import Artifact

    remember("anna", 3)
    state = run("quality")
    assert (state.is_completed(), state.message) == (True, "completed")
    table, link = Artifact.get("quality"), Artifact.get("data-docs")
    assert table is not None
    assert link is not None
    rows = {row["suite"]: row["passed"] for row in json.loads(str(table.data))}
    assert rows == {
        "imported": "yes",
        "embedded": "nothing to check",
        "generation": "nothing to check",
        "archive": "nothing to check",
    }
    (page,) = (home / "quality").glob("*/index.html")
    assert page.as_uri() in str(link.data)


def test_without_tenants_there_is_nothing_to_judge(home: Path) -> None:
    assert run("quality").is_completed()


def test_in_the_nightly_run_a_failed_gate_is_reported_beside_the_rest(remember: Remember, database_url: str) -> None:
    from prefect.artifacts import Artifact

    remember("anna", 3)
    spoil(database_url)
    state = run("nightly")
    assert state.is_failed()
    assert "quality: imported: scope_is_given among (1 rows) of anna" in state.message
    assert [(row.tenant, row.embedded) for row in state.result(raise_on_failure=False).details["rows"]] == [("anna", 3)]
    report = Artifact.get("nightly-report")
    assert report is not None
    assert "snapshot: completed" in str(report.description)


def test_a_failed_chore_before_it_is_still_the_one_that_is_told(
    remember: Remember, remember_elsewhere: Remember, database_url: str
) -> None:
    from core.errors import Misconfigured

    remember_elsewhere("alien", 3)
    spoil(database_url)
    state = run("nightly")
    assert isinstance(state.result(raise_on_failure=False), Misconfigured)
    assert "embed: alien failed" in state.message
    assert "quality: imported" in state.message
