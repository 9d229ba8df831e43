"""The command line on a home of its own: what each command says, its exit code, and how it stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from typer.testing import CliRunner, Result

from core.adapters.embedded_postgres import start_postgres
from deployments.cli import app
from tests.servers import temporary_home

ROOT = Path(__file__).parents[2]
ENOUGH = 20_000  # to be in the middle of, whatever the machine
COMMAND = [sys.executable, "-m", "deployments.cli"]


@pytest.fixture(scope="module")
def module_home() -> Iterator[Path]:
    """A home whose servers are stopped at the end."""
    with temporary_home() as home:
        yield home


@pytest.fixture
def home(module_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home, named in the environment."""
    monkeypatch.setenv("MEMORY_HOME", str(module_home))
    return module_home


def run(*arguments: str, given: str | None = None) -> Result:
    """A command in this process."""
    return CliRunner().invoke(app, list(arguments), input=given, prog_name="memory")


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    """A command in a process and a process group of its own, as from a terminal."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env={**kept, "MEMORY_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    output, errors = process.communicate(timeout=100)
    return process.returncode, output, errors


def as_json(result: Result) -> Any:
    """The one JSON document of a command that went well."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def records(tenant: str) -> int:
    """How many memories a tenant has."""
    (one,) = as_json(run("status", "--tenant", tenant, "--json"))["tenants"]
    return int(one["records"])


def waiting(tenant: str) -> int:
    """How much index work a tenant has."""
    (one,) = as_json(run("status", "--tenant", tenant, "--json"))["tenants"]
    return int(one["waiting"])


def test_init_says_where_everything_is(home: Path) -> None:
    stores = as_json(run("init", "--json"))["stores"]
    assert set(stores) == {"record", "cache", "index", "objects", "embedding"}
    assert str(home) in stores["record"]
    assert "Next:" in run("init").stdout


def test_add_get_list_delete(home: Path) -> None:
    added = as_json(run("add", "Ana prefers mornings", "-t", "ana", "--id", "a1", "--tag", "habit", "--json"))
    assert (added["id"], added["kept"]) == ("a1", "stored")
    assert as_json(run("add", "-", "-t", "ana", "--role", "user", "--json", given="from a pipe\n"))["kept"] == "stored"
    memory = as_json(run("get", "a1", "-t", "ana", "--json"))
    assert (memory["content"], memory["tags"]) == ("Ana prefers mornings", ["habit"])
    assert [one["content"] for one in as_json(run("list", "-t", "ana", "--role", "user", "--json"))] == [
        "from a pipe\n"
    ]
    assert "Ana prefers mornings" in run("get", "a1", "-t", "ana").stdout
    assert as_json(run("delete", "a1", "-t", "ana", "--json")) == {"id": "a1", "deleted": True}
    gone = run("get", "a1", "-t", "ana")
    assert (gone.exit_code, gone.stdout, gone.stderr) == (1, "", "there is no such memory\n")
    assert run("delete", "a1", "-t", "ana").exit_code == 1


def test_tenants_do_not_see_each_other(home: Path) -> None:
    as_json(run("add", "hers", "-t", "one", "--id", "same", "--json"))
    assert run("get", "same", "-t", "two").exit_code == 1
    assert as_json(run("list", "-t", "two", "--json")) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "text"],
        ["add", "  ", "-t", "x"],
        ["add", "text", "-t", " "],
        ["add", "text", "-t", "x", "--importance", "2"],
        ["list", "-t", "x", "--limit", "0"],
        ["search", " ", "-t", "x"],
        ["import", "there-is-no-such-file.jsonl", "-t", "x"],
        ["import", "there-is-no-such-folder", "-t", "x"],
        ["nonsense"],
        ["run", "nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_use_is_2(home: Path, arguments: list[str]) -> None:
    plain = run(*arguments)
    assert (plain.exit_code, plain.stdout) == (2, "")
    assert plain.stderr
    machine = run(*arguments, "--json")
    assert (machine.exit_code, machine.stdout) == (2, "")
    assert set(json.loads(machine.stderr)["error"]) >= {"kind", "message"}


def test_wrong_settings_say_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_EMBED_BATCH", "0")
    result = run("status")
    assert result.exit_code == 1
    assert "embed_batch" in result.stderr
    assert "MEMORY_*" in result.stderr


def test_import_lines_says_what_became_of_each(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    lines = [
        '{"id": "a", "content": "one"}',
        '{"id": "b", "content": "  "}',
        "{broken",
        '{"id": "c", "content": "two"}',
    ]
    path.write_text("\n".join(lines))
    result = run("import", str(path), "-t", "lines", "--json")
    assert result.exit_code == 3
    told = json.loads(result.stdout)
    assert told["items"] == {"stored": 2, "skipped": 1}
    assert [problem["place"] for problem in told["problems"]] == ["talk.jsonl:3", "talk.jsonl:2"]
    path.write_text("\n".join([lines[0], lines[3]]))
    again = run("import", str(path), "-t", "lines")
    assert (again.exit_code, again.stderr) == (0, "")
    assert "Nothing to do" in again.stdout


def test_import_a_folder(home: Path, tmp_path: Path) -> None:
    (tmp_path / "day.md").write_text("# Day\n\nIt rained.\n")
    (tmp_path / "talk.jsonl").write_text('{"id": "a", "content": "one"}\n')
    told = as_json(run("import", str(tmp_path), "-t", "folder", "--scope", "diary", "--json"))
    assert (told["items"], told["files"]) == ({"stored": 2}, 2)
    assert [one["title"] for one in as_json(run("list", "-t", "folder", "--scope", "diary", "--json"))] == ["Day"]


def test_help_shows_examples() -> None:
    for command in ("init", "import", "add", "get", "list", "search", "delete", "status", "down", "demo"):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert f"memory {command}" in result.stdout


def test_starting_up_leaves_the_orchestrator_out() -> None:
    source = "import deployments.cli, sys; print('prefect' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_demo_and_the_flows(home: Path) -> None:
    """Demo, demo again, and the flows on something new: in processes, for Prefect reads its settings once."""
    code, output, errors = finished(start(home, "demo"))
    assert code == 0, errors
    assert errors == ""
    for tenant in ("harbor-clinic", "lumen-studio", "wanderlight"):
        assert tenant in output
    assert "hc-dec-consent" in output
    before = as_json(run("status", "--json"))
    code, output, errors = finished(start(home, "demo"))
    assert (code, errors) == (0, "")
    assert "Nothing to do: all" in output
    after = as_json(run("status", "--json"))
    assert {**after, "caches": None} == {**before, "caches": None}
    assert after["caches"]["answers"]["hit"] > 0
    found = as_json(run("search", "What order does Carla want in a bug report?", "-t", "lumen-studio", "--json"))
    assert len(found["found"]) == 5

    as_json(run("add", "the kettle is in the blue cupboard", "-t", "kitchen", "--id", "kettle", "--json"))
    code, output, errors = finished(start(home, "run", "nightly", "--json"))
    assert (code, errors) == (0, "")
    rows = {row["tenant"]: row for row in json.loads(output)["tenants"]}
    assert (rows["kitchen"]["embedded"], rows["kitchen"]["waiting"]) == (1, 0)
    found = as_json(run("search", "where is the kettle?", "-t", "kitchen", "--json"))["found"]
    assert [one["memory"]["id"] for one in found] == ["kettle"]


def test_set_aside_is_in_part_and_shown(home: Path) -> None:
    for name in ("good", "bad"):
        as_json(run("add", f"a {name} one", "-t", "mixed", "--id", name, "--json"))
    with psycopg.connect(start_postgres(home)) as connection:
        connection.execute("UPDATE outbox SET attempts = 9 WHERE tenant = 'mixed' AND memory_id = 'bad'")
    code, output, _ = finished(start(home, "run", "embed", "--tenant", "mixed", "--json"))
    assert code == 3
    assert json.loads(output)["message"] == "completed, 1 set aside"
    (aside,) = as_json(run("status", "--tenant", "mixed", "--json"))["set_aside"]
    assert aside["memory_id"] == "bad"
    assert aside["reason"] in run("status", "--tenant", "mixed").stdout


def test_two_commands_at_once(home: Path) -> None:
    both = [start(home, "add", f"text {number}", "-t", "pair", "--json") for number in range(2)]
    assert [finished(one)[0] for one in both] == [0, 0]
    assert records("pair") == 2


def test_an_interrupted_import_ends_cleanly_and_goes_on(home: Path, tmp_path: Path) -> None:
    number = 60_000
    path = tmp_path / "many.jsonl"
    path.write_text("".join(f'{{"id": "m{count}", "content": "memory {count}"}}\n' for count in range(number)))
    process = start(home, "import", str(path), "-t", "many")
    while not any(one["records"] for one in as_json(run("status", "--tenant", "many", "--json"))["tenants"]):
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    code, output, errors = finished(process)
    assert (code, output) == (130, "")
    assert errors == "Interrupted. What was imported so far is kept; import the same again to go on.\n"
    assert 0 < records("many") < number
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:ENOUGH]))
    assert as_json(run("import", str(path), "-t", "many", "--json"))["problem_count"] == 0


def test_an_interrupted_flow_ends_cleanly(home: Path, tmp_path: Path) -> None:
    """In the middle of embedding, and by a signal that reaches Prefect's server too, as Ctrl-C does."""
    path = tmp_path / "more.jsonl"
    path.write_text("".join(f'{{"id": "m{count}", "content": "more {count}"}}\n' for count in range(ENOUGH)))
    as_json(run("import", str(path), "-t", "more", "--json"))
    process = start(home, "run", "embed", "--tenant", "more")
    while waiting("more") == ENOUGH:
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    code, output, errors = finished(process)
    assert (code, output) == (130, "")
    assert errors == "Interrupted. Nothing is lost; run `memory run nightly` again to go on.\n"


def test_down_stops_the_servers_and_keeps_the_data(home: Path) -> None:
    as_json(run("add", "stays", "-t", "down", "--id", "d", "--json"))
    assert set(as_json(run("down", "--json"))["stopped"]) == {"valkey", "postgresql"}
    assert as_json(run("down", "--json")) == {"stopped": []}
    assert as_json(run("get", "d", "-t", "down", "--json"))["content"] == "stays"


def test_the_sample_data_may_be_absent(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("deployments.commands_demo.DATA", tmp_path)
    result = run("demo")
    assert result.exit_code == 1
    assert "checkout" in result.stderr


def _environ(process: psutil.Process) -> dict[str, str]:
    """A process's environment; nothing of one that has just ended."""
    try:
        return dict(process.environ())
    except psutil.NoSuchProcess:
        return {}


def test_down_ends_what_a_killed_run_left_of_prefect(home: Path) -> None:
    def servers() -> list[psutil.Process]:
        marked = [one for one in psutil.process_iter() if "prefect.server.api.server" in " ".join(_told(one))]
        return [one for one in marked if _environ(one).get("PREFECT_HOME") == str(home.resolve() / "prefect")]

    process = start(home, "run", "embed", "--tenant", "nobody")
    while not servers():
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait(20)  # its server still holds the pipes
    (left,) = servers()
    assert "prefect" in as_json(run("down", "--json"))["stopped"]
    assert not left.is_running()
    assert servers() == []


def _told(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
