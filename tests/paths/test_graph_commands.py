"""`memory graph`: every command shows or changes what it says, for people and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from deployments.cli import app


@pytest.fixture(autouse=True)
def _home(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path))
    monkeypatch.setenv("MEMORY_POSTGRES_URL", database_url)
    monkeypatch.setenv("MEMORY_CACHE", "false")


def run(*arguments: str, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(app, [*arguments, "--tenant", "t"], prog_name="memory")
    assert result.exit_code == exit_code, result.output
    return result


def as_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def test_what_is_put_is_shown_led_to_merged_and_taken_back() -> None:
    run("add", "Ana sees Dr. Novak", "--id", "m")
    run("graph", "put", "Ana Ruiz", "--source-type", "person")
    run("graph", "put", "Ana Ruiz", "Dr. Novak", "--type", "patient of", "--memory", "m", "--weight", "2")
    run("graph", "put", "Dr. Novak", "room 2")
    shown = as_json("graph", "show", "ANA RUIZ", "--depth", "2")
    assert (shown["entity"]["type"], shown["entity"]["stated"]) == ("person", True)
    assert [(one["entity"]["name"], one["distance"]) for one in shown["neighbours"]] == [
        ("Dr. Novak", 1),
        ("room 2", 2),
    ]
    assert "Ana Ruiz – patient of – Dr. Novak" in run("graph", "show", "ana ruiz").stdout
    (way,) = as_json("graph", "path", "room 2", "ana-ruiz")
    assert way["names"] == ["room 2", "Dr. Novak", "Ana Ruiz"]
    assert "room 2 – Dr. Novak – Ana Ruiz" in run("graph", "path", "room 2", "ana-ruiz").stdout
    assert "no way" in run("graph", "path", "room 2", "ana-ruiz", "--depth", "1").stdout
    assert as_json("graph", "path", "room 2", "ana-ruiz", "--direction", "out") == []
    support = as_json("graph", "support", "Ana Ruiz", "Dr. Novak", "--type", "patient of")
    assert support == [{"memory_id": "m", "weight": 2.0}]
    assert "m" in run("graph", "support", "Ana Ruiz", "Dr. Novak", "--type", "patient of").stdout
    merged = as_json("graph", "merge", "Ana Ruiz", "Mrs Ruiz", "room 2")
    assert (merged["merged"], merged["entity"]["names"]) == (1, ["Ana Ruiz", "Mrs Ruiz", "room 2"])
    assert "0 became part" in run("graph", "merge", "Ana Ruiz", "Mrs Ruiz").stdout
    assert [one["name"] for one in as_json("graph", "list")] == ["Ana Ruiz", "Dr. Novak"]
    assert [one["name"] for one in as_json("graph", "list", "--type", "person")] == ["Ana Ruiz"]
    assert "also: Mrs Ruiz" in run("graph", "show", "room 2").stdout
    run("graph", "withdraw", "Dr. Novak", "Ana Ruiz")
    assert as_json("graph", "withdraw", "Ana Ruiz", "Dr. Novak", "--type", "patient of", "--memory", "m") == {
        "withdrawn": True
    }
    run("graph", "withdraw", "Mrs Ruiz")
    assert as_json("graph", "list") == []


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["show", "nobody"], 1),
        (["path", "nobody", "none"], 1),
        (["merge", "nobody", "none"], 1),
        (["withdraw", "nobody"], 1),
        (["put", "a", "b", "--memory", "none"], 1),
        (["put", "a", "A"], 2),
        (["put", "a", "b", "--weight", "0"], 2),
        (["show", "a", "--depth", "7"], 2),
        (["show", "a", "--direction", "up"], 2),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else str(one),
)
def test_what_is_not_there_or_makes_no_sense_is_said(arguments: list[str], exit_code: int) -> None:
    result = run("graph", *arguments, exit_code=exit_code)
    assert "Traceback" not in result.output
