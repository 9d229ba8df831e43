"""`memory doctor`: each store in its turn, what is wrong and what to do; "unknown" is never reported as fine."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from core.assembly import open_engine
from core.doctor import examine
from core.model.finding import Finding, Verdict
from core.model.memory import Draft
from core.record.checkup import examine_record
from core.record.database import Limits
from core.settings import load_settings
from tests.seaweed import S3Server
from tests.tcp_postgres import TcpPostgres

SECRET = "s3cret-of-somebody"


@pytest.fixture
def chosen(database_url: str, valkey_url: str, tmp_path: Path) -> dict[str, Any]:
    """Settings under which everything works."""
    return {"home": tmp_path, "postgres_url": database_url, "redis_url": valkey_url}


def found(chosen: dict[str, Any], **others: Any) -> dict[tuple[str, str], Finding]:
    """Findings by store and check; every one that is not fine says what to do, and none tells a secret."""
    findings = list(examine(load_settings(**(chosen | others))))
    for one in findings:
        assert one.advice or one.verdict is Verdict.OK, one
        assert SECRET not in f"{one.detail} {one.advice}"
    return {(one.store, one.check): one for one in findings}


def test_where_everything_works_nothing_is_a_problem_and_nothing_is_left(chosen: dict[str, Any]) -> None:
    with open_engine(load_settings(**chosen)) as engine:
        engine.write("t", Draft(content="green tea"))
    findings = found(chosen)
    assert {store for store, _ in findings} == {"settings", "record", "cache", "index", "objects", "embedding"}
    told = {name: one for name, one in findings.items() if one.verdict is not Verdict.OK}
    assert list(told) == [("record", "rights")]  # tests connect as a superuser
    assert "superuser" in told["record", "rights"].detail
    assert found(chosen)["index", "reachable"].detail == "0 collections"
    assert not any(path.is_file() for path in (chosen["home"] / "objects").rglob("*") if "probe" in path.name)


def test_the_tables_of_another_release_are_told(chosen: dict[str, Any], empty_database_url: str) -> None:
    findings = found(chosen, postgres_url=empty_database_url)
    assert findings["record", "schema"].verdict is Verdict.WARNING
    assert findings["embedding", "space"].verdict is Verdict.UNKNOWN


def test_a_store_out_of_reach_is_a_problem_and_the_others_get_their_turn(chosen: dict[str, Any]) -> None:
    findings = found(
        chosen,
        postgres_url=f"postgresql://owner:{SECRET}@127.0.0.1:1/kept",
        redis_url=f"redis://:{SECRET}@127.0.0.1:1",
        objects_url="s3://bucket",
        s3_endpoint="http://127.0.0.1:1",
        s3_key_id="key",
        s3_secret=SECRET,
        connect_timeout=timedelta(seconds=1),
    )
    for store in ("record", "cache", "objects"):
        assert findings[store, "reachable"].verdict is Verdict.PROBLEM
    assert findings["index", "rights"].verdict is Verdict.OK
    assert findings["embedding", "model"].verdict is Verdict.OK


def test_rights_that_are_missing_are_named(
    chosen: dict[str, Any], tcp_postgres_server: TcpPostgres, s3_server: S3Server
) -> None:
    findings = found(
        chosen,
        postgres_url=tcp_postgres_server.url(password=SECRET),
        objects_url="s3://no-such-bucket-here",
        s3_endpoint=s3_server.endpoint,
        s3_key_id=s3_server.key_id,
        s3_secret=SECRET,
    )
    assert "password" in findings["record", "reachable"].detail
    assert findings["objects", "reachable"].verdict is Verdict.PROBLEM


@pytest.mark.parametrize("apart", [timedelta(seconds=-90), timedelta(0), timedelta(hours=3)])
def test_clocks_that_are_apart_are_told(database_url: str, apart: timedelta) -> None:
    findings = examine_record(database_url, Limits(), lambda: datetime.now(UTC) + apart, ours=True)
    (clock,) = [one for one in findings if one.check == "clock"]
    assert clock.verdict is (Verdict.WARNING if apart else Verdict.OK)


def test_a_role_that_passes_row_level_security_is_a_problem(database_url: str) -> None:
    with psycopg.connect(database_url) as admin:
        try:
            admin.execute("ALTER ROLE memory_app BYPASSRLS")
            admin.commit()
            findings = list(examine_record(database_url, Limits(), lambda: datetime.now(UTC), ours=True))
        finally:
            admin.execute("ALTER ROLE memory_app NOBYPASSRLS")
    assert [one.detail for one in findings if one.verdict is Verdict.PROBLEM] == [
        "memory_app passes row-level security"
    ]


def test_tenants_served_in_another_space_are_told(chosen: dict[str, Any]) -> None:
    with open_engine(load_settings(**chosen)) as engine:
        engine.write("t", Draft(content="green tea"))
    told = found(chosen, embedding_dimensions=64)["embedding", "space"]
    assert (told.verdict, "256 dimensions" in told.detail) == (Verdict.WARNING, True)
    with closing(psycopg.connect(chosen["postgres_url"], autocommit=True)) as plain:
        plain.execute("""UPDATE generation SET space = space || '{"model": "gone"}', fingerprint = 'gone'""")
    told = found(chosen)["embedding", "space"]
    assert (told.verdict, "wordllama gone" in told.detail) == (Verdict.PROBLEM, True)


UNWISE: list[tuple[str, dict[str, Any]]] = [
    ("lease", {"statement_timeout": timedelta(seconds=90)}),
    ("connections", {"connections": 4, "embed_workers": 4}),
    ("objects_url", {"s3_endpoint": "http://127.0.0.1:1"}),
    ("cache_timeout", {"cache_timeout": timedelta(seconds=5)}),
]


@pytest.mark.parametrize(("check", "others"), UNWISE)
def test_settings_that_contradict_each_other_are_told(
    chosen: dict[str, Any], check: str, others: dict[str, Any]
) -> None:
    assert found(chosen, **others)["settings", check].verdict is Verdict.WARNING
