"""`memory plan`: no figure falls when there are more records, each is the sum it shows, and known cases come out."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from core.errors import Misconfigured, Refused
from core.model.sizing import Line, Wish, measurements, plan
from deployments.cli import app

KNOWN = measurements()
SIZES = st.floats(0, 1e12, allow_nan=False)
WISHES = st.builds(
    Wish,
    records=SIZES,
    tenants=st.floats(1, 1e7),
    text_bytes=st.floats(1, 1e5),
    tokens=st.floats(1, 1e5),
    dimensions=st.integers(1, 4096),
    archived=st.floats(0, 1),
    hot=st.floats(0, 1),
    changes=st.floats(0, 100),
    quantization=st.sampled_from(["none", "scalar", "binary"]),
    on_disk=st.booleans(),
    workers=st.integers(1, 500),
    nodes=st.integers(0, 50),
    seconds_a_request=st.none() | st.floats(0.001, 60),
    tokens_a_minute=st.none() | st.floats(1, 1e9),
    price=st.none() | st.floats(0, 100),
)


def figures(wish: Wish) -> dict[tuple[str, str], float]:
    return {(one.part, one.what): one.value for one in plan(wish, KNOWN)}


def line(wish: Wish, part: str, what: str) -> Line:
    (found,) = [one for one in plan(wish, KNOWN) if (one.part, one.what) == (part, what)]
    return found


@given(wish=WISHES, more=SIZES)
def test_no_figure_falls_when_there_are_more_records(wish: Wish, more: float) -> None:
    fewer, larger = figures(wish), figures(replace(wish, records=wish.records + more))
    assert fewer.keys() == larger.keys()
    for name, value in fewer.items():
        assert value <= larger[name] * (1 + 1e-9) + 1e-9, name


@given(wish=WISHES, more=st.floats(0, 1e7))
def test_no_figure_but_the_shards_of_a_mean_tenant_falls_when_there_are_more_tenants(wish: Wish, more: float) -> None:
    fewer, larger = figures(wish), figures(replace(wish, tenants=wish.tenants + more))
    for name, value in fewer.items():
        if name[1] != "shards of a mean tenant":
            assert value <= larger[name] * (1 + 1e-9), name


@given(wish=WISHES, more=st.integers(1, 100))
def test_no_time_grows_when_there_are_more_workers(wish: Wish, more: int) -> None:
    before, after = figures(wish), figures(replace(wish, workers=wish.workers + more))
    assert all(after[name] <= value * (1 + 1e-9) for name, value in before.items())


@given(wish=WISHES)
def test_every_figure_is_a_number_and_shows_its_sum(wish: Wish) -> None:
    for one in plan(wish, KNOWN):
        assert math.isfinite(one.value)
        assert one.value >= 0
        assert one.sum


def test_a_billion_records_of_ten_thousand_tenants() -> None:
    wish = Wish(records=1e9, tenants=1e4)
    assert line(wish, "PostgreSQL", "partitions of each table").value == 32
    assert line(wish, "Qdrant", "memory of collections").value == 5e9
    assert line(wish, "Qdrant", "memory of vectors").value == 1e9 * (4 * 256 + 140)
    assert line(wish, "Qdrant", "nodes").value == math.ceil(2 * (1.164e12 + 5e9) / 48e9)
    assert line(wish, "Time", "embed").value == pytest.approx(1e9 / (4 * 3800))
    assert line(wish, "Cost", "tokens of an embed or a reindex").value == 1e11


def test_what_a_provider_allows_bounds_the_rate() -> None:
    wish = Wish(records=1e6, tenants=1, tokens=100, seconds_a_request=0.05, tokens_a_minute=1e6)
    assert line(wish, "Time", "embed").value == pytest.approx(1e6 * 100 / 1e6 * 60)
    free = replace(wish, tokens_a_minute=None)
    assert line(free, "Time", "embed").value == pytest.approx(1e6 / 13_000)  # then the index is what is slow


def test_money_goes_by_the_tokens() -> None:
    wish = Wish(records=1e6, tenants=1, tokens=100, price=0.02)
    assert line(wish, "Cost", "of an embed or a reindex").value == pytest.approx(2.0)


WRONG = [{"records": -1}, {"tenants": 0}, {"dimensions": 0}, {"archived": 1.5}, {"quantization": "product"}]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wish_that_makes_no_sense_is_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(Refused, match=next(iter(wrong))):
        plan(replace(Wish(records=1, tenants=1), **wrong), KNOWN)  # type: ignore[arg-type]


def test_every_measurement_says_how_it_was_come_by_and_is_used() -> None:
    used = set()

    class Watched(dict):  # type: ignore[type-arg]
        def __getitem__(self, name: str) -> object:
            used.add(name)
            return super().__getitem__(name)

    for seconds in (None, 1.0):
        plan(Wish(records=1e9, tenants=1e4, archived=0.5, seconds_a_request=seconds), Watched(KNOWN))
    assert used == set(KNOWN)
    assert all(len(one.how) > 20 for one in KNOWN.values())


@pytest.mark.parametrize("text", ["nonsense", "[row_bytes]\nvalue = 'much'\nhow = 'guessed'", "[row_bytes]\nvalue = 3"])
def test_measurements_that_cannot_be_read_are_for_a_person_to_mend(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    with pytest.raises(Misconfigured, match=r"mine\.toml"):
        measurements(tmp_path / "mine.toml")


def test_the_command_prints_figures_sums_and_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path / "none"))
    asked = ["plan", "--records", "1e9", "--tenants", "1e4", "--model", "openai/text-embedding-3-small"]
    shown = CliRunner().invoke(app, asked).stdout
    for part in ("1.2 TB", "10,000 tenants x 500,000 B", "2,000.00 USD", "scroll_rate", "reconcile"):
        assert part in shown
    found = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert {one["part"] for one in found["figures"]} == {"PostgreSQL", "Qdrant", "Redis", "Objects", "Time", "Cost"}
    assert found["measured"].keys() == KNOWN.keys()
    assert not (tmp_path / "none").exists()  # nothing was opened


def test_a_model_without_a_known_price_is_wrong_use() -> None:
    asked = ["plan", "--records", "10", "--model", "nobody/nothing"]
    assert CliRunner().invoke(app, asked).exit_code == 2
