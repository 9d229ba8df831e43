"""The commands on what a provider refused and what it cost: `memory set-aside`, `memory costs`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from core.assembly import open_engine
from core.batch.embed import Portion, Report, step
from core.model.memory import Draft
from core.settings import load_settings
from deployments.cli import app
from tests.openai_server import OpenAIServer, refusing


@pytest.fixture
def server(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A provider, named in the environment, that refuses every text with `bad` in it."""
    started = OpenAIServer()
    started.told = refusing("bad")
    settings = {
        "HOME": str(tmp_path), "POSTGRES_URL": database_url, "CACHE": "false", "EMBEDDING_PROVIDER": "openai",
        "EMBEDDING_MODEL": "text-embedding-3-small", "EMBEDDING_DIMENSIONS": "32", "EMBEDDING_URL": started.url,
        "EMBEDDING_API_KEY": "k",
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(f"MEMORY_{name}", value)
    yield started
    started.stop()


def embed(**texts: str) -> Report:
    """Keep memories of tenant `t` and bring the index up to date."""
    with open_engine(load_settings()) as engine:
        list(engine.write_many("t", [Draft(id=name, content=text) for name, text in texts.items()]))
        return step(engine.embed_work(), Portion(tenant="t", records=1000))


def run(*arguments: str) -> Any:
    """What a command prints as JSON."""
    ended = CliRunner().invoke(app, [*arguments, "--json"], prog_name="memory")
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def test_what_was_set_aside_is_listed_tried_again_and_given_up(server: OpenAIServer) -> None:
    report = embed(good="a good text", first="a bad text", second="a very bad text")
    assert (report.embedded, report.set_aside_count) == (1, 2)
    listed = run("set-aside", "list", "--tenant", "t")
    assert {one["memory_id"] for one in listed} == {"first", "second"}
    assert all("refuses what was sent" in one["reason"] for one in listed)
    assert run("set-aside", "list", "--tenant", "u") == []
    shown = CliRunner().invoke(app, ["set-aside", "list", "--tenant", "t"], prog_name="memory")
    assert "refuses what was sent" in shown.stdout
    assert run("set-aside", "drop", "first", "--tenant", "t") == {"dropped": ["first"]}
    assert run("set-aside", "retry", "--tenant", "t") == {"retried": ["second"]}
    server.told = lambda body: None
    assert embed().embedded == 1
    assert run("set-aside", "list", "--tenant", "t") == []
    assert run("get", "first", "--tenant", "t")["content"] == "a bad text"  # given up is its index work alone


def test_costs_are_told_with_what_reuse_saved(server: OpenAIServer) -> None:
    embed(a="green tea for Ana", b="black tea")
    embed(c="green tea for Ana")
    (day,) = run("costs")
    assert (day["tenant"], day["provider"], day["model"]) == ("t", "openai", "text-embedding-3-small")
    assert (day["requests"], day["texts"], day["tokens"], day["reused_texts"]) == (1, 2, 6, 1)
    assert day["cost"] == pytest.approx(6 * 0.02 / 1e6)
    assert day["saved"] == pytest.approx(day["reused_tokens"] * 0.02 / 1e6)
    assert day["reused_tokens"] > 0
    assert run("costs", "--tenant", "u") == []
    shown = CliRunner().invoke(app, ["costs"], prog_name="memory").stdout
    assert "reuse saved" in shown
    assert "openai text-embedding-3-small" in shown


@pytest.mark.parametrize(("name", "said"), [("EMBED_TOKENS_A_DAY", "the day's"), ("EMBED_TOKENS_A_RUN", "the run's")])
def test_a_budget_of_the_settings_stops_the_run_and_says_so(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.setenv(f"MEMORY_{name}", "20")
    monkeypatch.setenv("MEMORY_EMBED_BATCH", "5")
    monkeypatch.setenv("MEMORY_EMBED_WORKERS", "1")
    report = embed(**{f"m{number}": f"a text of five {number}" for number in range(20)})
    assert report.embedded == 5
    assert (report.postponed or "").startswith(said)
    assert len(server.texts) == 5
