"""Snapshot and recover as flows and as commands: an index lost, a record restored."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from typer.testing import CliRunner, Result

from deployments.cli import app

Remember = Callable[[str, int], None]


def run(*arguments: str) -> Result:
    """A command in this process."""
    return CliRunner().invoke(app, list(arguments), prog_name="memory")


def shown(result: Result) -> Any:
    return json.loads(result.stdout)


def test_a_lost_index_is_seen_priced_and_rebuilt_without_embedding(remember: Remember, home: Path) -> None:
    remember("anna", 12)
    remember("bert", 3)
    assert run("run", "embed", "--json").exit_code == 0
    taken = run("snapshot", "--json")
    assert (taken.exit_code, [one["kept"] for one in shown(taken)["tenants"]]) == (0, [12, 3])
    assert [one["rows"] for one in shown(run("snapshot", "-t", "anna", "--json"))["tenants"]] == [0]
    shutil.rmtree(home / "vectors" / "anna.g1")
    gone = shown(run("status", "--json"))["index_mostly_gone"]
    assert gone == [{"tenant": "anna", "due": 12, "points": 0}]
    assert "mostly gone" in run("status").output
    told = [one for one in shown(run("doctor", "--json")) if one["check"] == "points"]
    assert [(one["verdict"], one["advice"]) for one in told] == [("problem", "memory recover --tenant anna")]
    (plan,) = shown(run("recover", "-t", "anna", "--dry-run", "--json"))
    assert (plan["figures"]["missing"], plan["figures"]["restored"], plan["cost"]) == (12, 12, 0.0)
    done = run("recover", "-t", "anna", "--json")
    assert done.exit_code == 0
    (report,) = shown(done)["tenants"]
    assert (report["figures"]["restored"], report["figures"]["enqueued"]) == (12, 0)
    assert shown(run("status", "--json"))["index_mostly_gone"] == []
    assert shown(run("search", "memory 3 of anna", "-t", "anna", "--json"))
    assert run("recover").exit_code == 2


def test_what_no_snapshot_holds_is_embedded_by_the_same_command(remember: Remember, home: Path) -> None:
    remember("anna", 4)
    assert run("run", "embed", "--json").exit_code == 0
    shutil.rmtree(home / "vectors" / "anna.g1")
    done = run("recover", "--tenant", "anna")
    assert done.exit_code == 0
    assert "4 left to the embed chore" in done.output
    assert shown(run("status", "--json"))["tenants"][0]["waiting"] == 0


def test_deleted_memories_stay_deleted_over_a_restore_of_the_record(
    remember: Remember, home: Path, database_url: str
) -> None:
    remember("anna", 4)
    assert run("run", "embed", "--json").exit_code == 0
    assert run("delete", "m1", "--tenant", "anna").exit_code == 0
    assert run("run", "embed", "--json").exit_code == 0
    with psycopg.connect(database_url) as session:  # as a backup from before the deletion has it
        session.execute("ALTER TABLE memory DISABLE TRIGGER USER")
        session.execute("UPDATE memory SET deleted_at = NULL, version = 1, updated_at = created_at")
        session.execute("ALTER TABLE memory ENABLE TRIGGER USER")
        session.execute("DELETE FROM memory_version")
    done = run("recover", "--restored", "--json")
    assert done.exit_code == 0
    assert [one["done_again"] for one in shown(done)["deleted_again"]] == [1]
    assert run("get", "m1", "--tenant", "anna").exit_code == 1
    assert run("get", "m2", "--tenant", "anna").exit_code == 0
    with psycopg.connect(database_url) as session:
        assert session.execute("SELECT epoch FROM engine").fetchone() == (1,)
