"""The commands on how memories age and go, on a home of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from core.assembly import open_engine
from core.batch import archive, reap
from core.settings import load_settings
from deployments.cli import app


@pytest.fixture
def url(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path))
    monkeypatch.setenv("MEMORY_POSTGRES_URL", database_url)
    monkeypatch.setenv("MEMORY_CACHE", "false")
    monkeypatch.setenv("MEMORY_KEY_PROVIDER", "file")
    monkeypatch.setenv("MEMORY_POLICIES", '[{"type": "memory", "archive_after": 86400, "time_to_live": "P365D"}]')
    return database_url


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), prog_name="memory")


def as_json(*arguments: str, exit_code: int = 0) -> Any:
    result = run(*arguments)
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def sql(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(statement.encode())


def archived() -> int:
    with open_engine(load_settings()) as engine:
        report = archive.step(engine.lifecycle.archive_work(), archive.Portion(tenant="t"))
    return report.archived


def test_a_memory_is_foreseen_archived_read_restored_kept_and_erased(url: str, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        run("add", f"a long text about tea that is worth an archive ({name})", "-t", "t", "--id", name)
    run("add", "secret tea", "-t", "t", "--id", "s", "--sensitive")
    assert as_json("get", "s", "-t", "t", "--json")["content"] == "secret tea"
    sql(url, "UPDATE memory SET updated_at = now() - interval '2 days', accessed_at = NULL WHERE id <> 'b'")
    sql(url, "UPDATE memory SET created_at = now() - interval '400 days' WHERE id = 'c'")
    assert as_json("keep", "a", "-t", "t", "--json") == {"kept": ["a"]}
    shown = {(one["action"], one["memories"]): one["examples"] for one in as_json("policy", "--dry-run", "--json")}
    assert shown == {("archive", 1): ["s"], ("reap", 1): ["c"]}
    run("keep", "a", "-t", "t", "--off")
    assert archived() == 2  # a and s; c goes
    assert "worth an archive (a)" in run("get", "a", "-t", "t").stdout
    assert [one["became"] for one in as_json("restore", "-t", "t", "--all", "--json")] == ["restored", "restored"]
    assert [one["became"] for one in as_json("restore", "a", "-t", "t", "--json")] == ["warm"]
    receipt = as_json("erase", "-t", "t", "--id", "a", "--json", exit_code=3)
    assert (receipt["outcome"], receipt["stores"]["objects"]["gone"]) == ("pending", True)
    assert run("get", "a", "-t", "t").exit_code == 1
    sql(url, "UPDATE archive_object SET live_until = now(); UPDATE erasure SET pending_until = now()")
    assert as_json("erase", "-t", "t", "--id", "a", "--json")["outcome"] == "gone"
    assert as_json("delete", "-t", "t", "--older-than", "300", "--json") == {"deleted": 1}


def test_policies_are_shown_by_tenant_and_type(url: str) -> None:
    run("add", "tea", "-t", "t")
    rows = {row["type"]: row for row in as_json("policy", "--json")}
    assert (rows["memory"]["archive_after"], rows["memory"]["time_to_live"]) == (1.0, 365.0)
    assert (rows["all others"]["archive_after"], rows["all others"]["time_to_live"]) == (180.0, None)
    assert rows["memory"]["cold_after"] == 30.0  # what a rule does not set stays


@pytest.mark.parametrize(
    "arguments",
    [
        ["erase", "-t", "t"],
        ["erase", "-t", "t", "--id", "a", "--all"],
        ["restore", "-t", "t"],
        ["restore", "a", "-t", "t", "--all"],
        ["delete", "-t", "t"],
        ["delete", "a", "-t", "t", "--older-than", "3"],
        ["delete", "-t", "t", "--older-than", "0"],
        ["delete", "a", "-t", "t", "--session", "s"],
    ],
    ids=" ".join,
)
def test_what_is_to_go_has_to_be_said_and_one_thing_only(url: str, arguments: list[str]) -> None:
    run("add", "tea", "-t", "t", "--id", "a")
    assert run(*arguments).exit_code == 2
    assert run("get", "a", "-t", "t").exit_code == 0


def test_reading_is_noted_when_the_engine_closes(url: str) -> None:
    run("add", "tea", "-t", "t", "--id", "a")
    run("get", "a", "-t", "t")
    with psycopg.connect(url) as session:
        assert session.execute("SELECT accessed_at > now() - interval '1 minute' FROM memory").fetchone() == (True,)


def test_losing_access_times_fails_no_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run("add", "tea", "-t", "t", "--id", "a")
    with open_engine(load_settings()) as engine:
        sql(url, "REVOKE UPDATE ON memory FROM memory_app")
        try:
            assert engine.get("t", "a").content == "tea"
            engine.close()
        finally:
            sql(url, "GRANT UPDATE ON memory TO memory_app")
        assert reap.step(engine.lifecycle.reap_work(), reap.Portion(tenant="t")).postponed is None
