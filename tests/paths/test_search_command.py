"""`memory search`: every option narrows or shows what it says, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from core.assembly import open_engine
from core.batch.embed import Portion, step
from core.model.memory import Draft
from core.settings import load_settings
from deployments.cli import app
from tests.servers import temporary_home

TALK = ["Where did you go in May?", "To the lake with my sister", "Nice green water", "It rained"]


@pytest.fixture(scope="module")
def filled_home() -> Iterator[Path]:
    with temporary_home() as home:
        with open_engine(load_settings(home=home)) as engine:
            turns = [
                Draft(
                    id=f"s{number}",
                    content=text,
                    session="s",
                    speaker=("Ana", "Maud")[number % 2],
                    role=("user", "assistant")[number % 2],
                    created_at=datetime(2026, 5, 1, 12, number, tzinfo=UTC),
                )
                for number, text in enumerate(TALK)
            ]
            alone = Draft(
                id="alone",
                content="green tea in May",
                scope="user",
                project="p",
                agent="a",
                type="fact",
                tags=("x", "y"),
                labels={"lang": "en"},
                importance=0.9,
                created_at=datetime(2026, 6, 1, tzinfo=UTC),
            )
            list(engine.write_many("t", [*turns, alone]))
            step(engine.embed_work(), Portion(tenant="t", records=100))
        yield home


@pytest.fixture(autouse=True)
def _home(filled_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_HOME", str(filled_home))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["search", *arguments, "--tenant", "t"])


def answer(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def ids(*arguments: str) -> set[str]:
    return {one["memory"]["id"] for one in answer(*arguments)["found"]}


EVERY = {"s0", "s1", "s2", "s3", "alone"}
ONLY_ALONE = [
    ["--scope", "user"], ["--project", "p"], ["--agent", "a"], ["--type", "fact"], ["--tag", "x"],
    ["--tag", "no", "--tag", "y"], ["--all-tags", "x", "--all-tags", "y"], ["--label", "lang=en"],
    ["--min-importance", "0.8"], ["--since", "2026-05-20"],
]  # fmt: skip


@pytest.mark.parametrize("options", ONLY_ALONE, ids=" ".join)
def test_each_filter_narrows(options: list[str]) -> None:
    assert ids("green May", "--limit", "10") == EVERY
    assert ids("green May", "--limit", "10", *options) == {"alone"}


def test_sessions_roles_tiers_and_times_narrow_too() -> None:
    assert ids("green May", "--session", "s", "--limit", "10") == EVERY - {"alone"}
    assert ids("green May", "--role", "assistant", "--limit", "10") == {"s1", "s3"}
    assert ids("green May", "--tier", "warm", "--limit", "10") == EVERY
    assert ids("green May", "--tier", "archive") == set()
    assert ids("green May", "--until", "2026-05-01T12:01:00", "--limit", "10") == {"s0"}


def test_a_least_score_leaves_out_what_scores_less() -> None:
    scores = sorted(one["score"] for one in answer("green May", "--limit", "10")["found"])
    assert ids("green May", "--limit", "10", "--min-score", str(scores[-2] - 0.0001)) < EVERY
    assert len(ids("green May", "--limit", "10", "--min-score", str(scores[-2] - 0.0001))) == 2
    assert ids("green May", "--min-score", "9") == set()


def test_json_holds_scores_with_their_parts_passages_and_legs() -> None:
    told = answer("Where did Ana go?", "--around", "1", "--limit", "1")
    (hit,) = told["found"]
    assert hit["memory"]["id"] == "s0"
    assert set(hit["parts"]) >= {"cosine", "bm25", "vector", "keyword", "decay", "neighbours", "session", "speaker"}
    assert hit["parts"]["speaker"] > 0
    (passage,) = told["passages"]
    assert [memory["id"] for memory in passage["memories"]] == ["s0", "s1"]
    assert passage["hits"] == ["s0"]
    assert {leg["name"] for leg in told["legs"]} == {"vector", "keyword"}
    assert all(leg["milliseconds"] >= 0 and leg["problem"] is None for leg in told["legs"])
    assert told["degraded"] is None


def test_explain_shows_what_each_score_is_made_of_as_a_table() -> None:
    table = [line.split() for line in run("did Ana go to the lake in May?", "--explain").stdout.splitlines()]
    names = ["id", "score", "vector", "keyword", "decay", "neighbours", "session", "speaker", "scale", "graph"]
    assert names in table
    rows = {
        row[0]: dict(zip(names[1:], map(float, row[1:]), strict=True))
        for row in table
        if len(row) == 10 and row[0] in EVERY
    }
    assert rows["s1"]["neighbours"] > 0
    assert rows["alone"]["neighbours"] == 0
    assert rows["s2"]["speaker"] > rows["s1"]["speaker"] == 0
    assert ["leg", "hits", "ms", "why", "not"] in table


def test_passages_are_shown_in_order_with_the_hits_marked() -> None:
    lines = run("lake", "--around", "1", "--limit", "1").stdout.splitlines()
    named = [line for line in lines if "(Ana," in line or "(Maud," in line]
    assert [next(one for one in sorted(EVERY) if one in line.split()) for line in named] == ["s0", "s1", "s2"]
    assert [line.startswith(" ") for line in named] == [True, False, True]


@pytest.mark.parametrize("options", [["--label", "lang"], ["--tier", "hot "], ["--around", "21"], ["--limit", "0"]])
def test_what_makes_no_sense_is_wrong_use(options: list[str]) -> None:
    assert run("tea", *options).exit_code == 2
