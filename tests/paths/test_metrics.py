"""What is served to Prometheus: every metric by its name, right figures, nothing of a memory, and gaps that say so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from core.assembly import Engine, open_engine
from core.assembly.metrics import reading_of, register_metrics, serving_metrics
from core.batch.embed import Portion, step
from core.batch.reconcile import step as reconcile_step
from core.errors import Misconfigured, Refused, Unavailable
from core.model.drift import Depth
from core.model.memory import Draft, embedding_id
from core.model.metrics import METRICS
from core.settings import load_settings
from deployments.cli import app
from tasks.mending import tell_events

SECRET = "the combination is 7294"
Figures = dict[tuple[str, str], float]


@pytest.fixture
def chosen(database_url: str, tmp_path: Path) -> dict[str, Any]:
    return {"home": tmp_path, "postgres_url": database_url, "cache": False, "metrics_fresh": timedelta(0)}


@pytest.fixture
def engine(chosen: dict[str, Any]) -> Iterator[Engine]:
    with open_engine(load_settings(**chosen)) as engine:
        yield engine


def write(engine: Engine, tenant: str, number: int) -> None:
    drafts = (Draft(id=f"m{count}", content=f"{SECRET} {count}", title=SECRET) for count in range(number))
    assert len(list(engine.write_many(tenant, drafts))) == number


def scraped(engine: Engine) -> tuple[str, Figures]:
    """What Prometheus reads, and the figures in it by name and by their labels' values, sorted."""
    with (
        serving_metrics(engine, "127.0.0.1", 0) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer,
    ):
        text = answer.read().decode()
    found = {
        (sample.name, " ".join(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return text, found


def test_every_metric_is_served_by_its_name_and_kind(engine: Engine) -> None:
    write(engine, "anna", 3)
    text, _ = scraped(engine)
    for metric in METRICS:
        # the older text format gives counters their name with its ending in the header too
        assert f"# TYPE {metric.name} {metric.kind}" in text
    told = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert told == {metric.name for metric in METRICS}


def test_no_content_of_memories_is_in_any_label(engine: Engine, database_url: str) -> None:
    write(engine, "anna", 5)
    with psycopg.connect(database_url) as admin:
        admin.execute("UPDATE outbox SET set_aside_at = now(), reason = %s WHERE memory_id = 'm1'", [SECRET])
    engine.search("anna", SECRET)
    engine.watch.error("embed portion", Misconfigured(f"refused: {SECRET}"))
    text, found = scraped(engine)
    assert found["memory_set_aside_entries", "anna"] == 1
    assert found["memory_errors_total", "Misconfigured embed portion"] == 1
    assert not any(word in text for word in ("combination", "7294", "m1"))


def test_the_figures_are_what_the_record_says(engine: Engine, database_url: str) -> None:
    write(engine, "anna", 5)
    write(engine, "bert", 2)
    step(engine.embed_work(), Portion(tenant="bert", records=10))
    engine.delete("bert", "m0")
    with psycopg.connect(database_url) as admin:
        admin.execute("UPDATE outbox SET enqueued_at = now() - interval '90 s' WHERE memory_id = 'm2'")
        admin.execute("UPDATE event SET at = now() - interval '2 h' WHERE kind = 'memory.deleted'")
        admin.execute(
            "INSERT INTO archive_object (tenant, key, memory_id, version, live_until, bytes)"
            " VALUES ('anna', 'k', 'm9', 1, now(), 700), ('anna', 'l', 'm8', 1, now(), NULL)"
        )
    _, found = scraped(engine)
    assert found["memory_backlog_entries", "anna"] == 5
    assert found["memory_backlog_entries", "bert"] == 1
    assert 90 <= found["memory_backlog_oldest_seconds", "anna"] < 120
    assert found["memory_embedding_texts_total", "l2_supercat wordllama"] == 2
    assert found["memory_embedding_cost_usd_total", "l2_supercat wordllama"] == 0
    assert found["memory_generations", "live"] == 2
    assert (found["memory_archive_objects", ""], found["memory_archive_bytes", ""]) == (2, 700)
    assert 7200 <= found["memory_events_lag_seconds", ""] < 7300


def test_drift_is_told_by_tenant_and_store_as_status_shows_it(
    engine: Engine, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("home", "postgres_url", "cache"):
        monkeypatch.setenv(f"MEMORY_{name.upper()}", str(chosen[name]))
    write(engine, "anna", 5)
    write(engine, "bert", 2)
    step(engine.embed_work(), Portion(tenant="anna", records=10))
    clean, found_at = "memory_drift_clean_timestamp_seconds", "memory_drift_found_timestamp_seconds"
    _, found = scraped(engine)
    assert (found[clean, "anna index"], found[found_at, "anna index"]) == (0, 0)  # never is not clean
    work = replace(engine.upkeep.work(), rules=replace(engine.upkeep.work().rules, minimum_age=timedelta(0)))
    for look in engine.upkeep.plan(["anna"]):
        reconcile_step(work, look, Depth.DIGESTS)
    engine._index.delete("anna.g1", {embedding_id("anna", "m1"): 2**52})
    for look in engine.upkeep.plan(["anna"]):
        reconcile_step(work, look, Depth.DIGESTS)
    _, found = scraped(engine)
    assert 0 < found[clean, "anna index"] < found[found_at, "anna index"]
    assert found[clean, "alias anna"] > found[found_at, "alias anna"] == 0
    assert (found["memory_records", "anna"], found["memory_index_points", "1 anna"]) == (5, 4)
    assert ("memory_index_points", "1 bert") not in found  # nobody has counted them
    shown = json.loads(CliRunner().invoke(app, ["status", "--json"], prog_name="memory").stdout)
    stores = {(one["tenant"], one["store"]): one for one in shown["coverage"]}
    told = stores["anna", "index"]
    assert (told["records"], told["points"], told["waiting"], told["set_aside"]) == (5, 4, 1, 0)
    assert datetime.fromisoformat(told["found_at"]).timestamp() == found[found_at, "anna index"]
    assert datetime.fromisoformat(told["clean_at"]).timestamp() == found[clean, "anna index"]
    assert stores["bert", "index"]["waiting"] == found["memory_backlog_entries", "bert"] == 2


def test_events_wait_for_streams_where_there_are_streams(chosen: dict[str, Any], valkey_url: str) -> None:
    with open_engine(load_settings(**{**chosen, "cache": True, "redis_url": valkey_url})) as engine:
        write(engine, "anna", 3)
        _, found = scraped(engine)
        assert found["memory_stream_lag_events", ""] == 3
        assert 0 < found["memory_stream_lag_seconds", ""] < 60
        tell_events(engine)
        _, found = scraped(engine)
    assert (found["memory_stream_lag_events", ""], found["memory_stream_lag_seconds", ""]) == (0, 0)


def test_without_streams_no_event_waits_for_one(engine: Engine) -> None:
    write(engine, "anna", 3)
    assert not any(name.startswith("memory_stream") for name, _ in scraped(engine)[1])


def test_tenants_beyond_the_bound_are_summed(chosen: dict[str, Any]) -> None:
    with open_engine(load_settings(**chosen, metrics_tenants=1)) as engine:
        for tenant, number in (("anna", 3), ("bert", 5), ("carl", 1)):
            write(engine, tenant, number)
        _, found = scraped(engine)
    assert {labels: value for (name, labels), value in found.items() if name == "memory_backlog_entries"} == {
        "bert": 5,
        "": 4,
    }


def test_what_cannot_be_read_is_said_and_the_rest_stands(engine: Engine, database_url: str) -> None:
    write(engine, "anna", 1)
    with psycopg.connect(database_url) as admin:
        admin.execute("ALTER TABLE embedding_use RENAME TO away")
        admin.commit()
        _, found = scraped(engine)
    assert found["memory_metrics_problem", "use"] == 1
    assert found["memory_metrics_problem", "coverage"] == 0
    assert found["memory_backlog_entries", "anna"] == 1
    assert not any(name == "memory_embedding_texts_total" for name, _ in found)


def test_a_count_that_takes_too_long_is_given_up(chosen: dict[str, Any], database_url: str) -> None:
    with open_engine(load_settings(**chosen, metrics_timeout=timedelta(milliseconds=200))) as engine:
        write(engine, "anna", 1)
        with psycopg.connect(database_url) as admin:
            admin.execute("LOCK TABLE archive_object IN ACCESS EXCLUSIVE MODE")
            samples = {(one.name, *one.labels): one.value for one in reading_of(engine).samples}
    assert samples["memory_metrics_problem", "archive"] == 1
    assert samples["memory_backlog_entries", "anna"] == 1


def test_searches_of_this_process_are_told_to_a_services_own_registry(engine: Engine) -> None:
    registry = CollectorRegistry()
    register_metrics(engine, registry)
    write(engine, "anna", 2)
    engine.search("anna", "the combination")  # there is no index yet: one leg is missing
    with pytest.raises(Refused):
        engine.search("anna", " ")
    assert registry.get_sample_value("memory_search_seconds_count") == 1
    assert registry.get_sample_value("memory_search_seconds_bucket", {"le": "+Inf"}) == 1
    assert registry.get_sample_value("memory_search_degraded_total") == 1
    assert registry.get_sample_value("memory_search_failed_total") == 0
    assert registry.get_sample_value("memory_metrics_problem", {"part": "coverage"}) is None


def test_a_search_without_the_record_counts_as_failed(engine: Engine, database_url: str) -> None:
    write(engine, "anna", 1)
    with psycopg.connect(database_url) as admin:
        admin.execute("ALTER TABLE memory RENAME TO away")
        admin.commit()
        with pytest.raises(Misconfigured):
            engine.search("anna", "what?")
    assert engine.watch.own().searches.failed == 1


def test_errors_are_kept_while_the_record_is_away_and_told_later(engine: Engine, database_url: str) -> None:
    def known() -> Figures:
        return {(one.name, *one.labels): one.value for one in reading_of(engine).samples}  # type: ignore[misc]

    with psycopg.connect(database_url) as admin:
        admin.execute("ALTER TABLE task_error RENAME TO away")
        admin.commit()
        engine.watch.error("plan embed", Refused("no"))
        engine.watch.error("plan embed", Unavailable("away"))
        admin.execute("ALTER TABLE away RENAME TO task_error")
        admin.commit()
    engine.watch.error("plan embed", Refused("no"))
    assert known()["memory_errors_total", "plan embed", "Refused"] == 2  # type: ignore[index]
    assert known()["memory_errors_total", "plan embed", "Unavailable"] == 1  # type: ignore[index]


def test_a_port_that_is_taken_is_a_setting_to_mend(engine: Engine) -> None:
    with (
        serving_metrics(engine, "127.0.0.1", 0) as port,
        pytest.raises(Misconfigured, match=str(port)),
        serving_metrics(engine, "127.0.0.1", port),
    ):
        pass


def test_the_command_serves_until_it_is_ended(chosen: dict[str, Any], tmp_path: Path) -> None:
    told = {"MEMORY_HOME": str(tmp_path), "MEMORY_POSTGRES_URL": chosen["postgres_url"], "MEMORY_CACHE": "false"}
    process = subprocess.Popen(
        [sys.executable, "-m", "deployments.cli", "metrics", "--port", "0"],
        env={**os.environ, **told},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    with urllib.request.urlopen(address, timeout=10) as answer:
        assert b"memory_generations_refused 0.0" in answer.read()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
