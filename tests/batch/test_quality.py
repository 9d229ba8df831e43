"""The quality gates: each suite passes what is sound, fails what is not, and fails where nothing could be looked at."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from core.adapters.data_docs import KEPT, DataDocs
from core.assembly import Engine, open_engine
from core.batch import archive, quality, snapshot
from core.batch.embed import Portion, step
from core.batch.quality import Report
from core.errors import Unavailable
from core.index.frames import verdict_rows
from core.model.memory import Draft, embedding_id
from core.model.quality import Checked, Suite, SuiteVerdict, frame_of, rules_of
from core.model.reindex import GATE_CHECKS, Check, GateVerdict
from core.settings import load_settings
from tests.house.source import ROOT

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
SECRET = "the combination is 7294"


@pytest.fixture
def chosen(database_url: str, tmp_path: Path) -> dict[str, Any]:
    rules = [{"type": "turn", "archive_after": timedelta(hours=1)}]
    return {"home": tmp_path, "postgres_url": database_url, "cache": False, "policies": rules}


@pytest.fixture
def engine(chosen: dict[str, Any]) -> Iterator[Engine]:
    with open_engine(load_settings(**chosen)) as engine:
        yield engine


def fill(engine: Engine, tenant: str, number: int = 12, kind: str = "memory") -> None:
    drafts = (Draft(id=f"{kind}{n}", content=f"{SECRET}, {kind} {n} " * 9, type=kind) for n in range(number))
    assert len(list(engine.write_many(tenant, drafts))) == number
    assert step(engine.embed_work(), Portion(tenant=tenant, records=1000)).embedded == number


def judged(engine: Engine, *tenants: str, now: datetime = NOW) -> Report:
    work = engine.watch.quality_work(now, random.Random(7))
    (portion,) = quality.plan(tenants, 50, random.Random(7))
    return quality.step(work, portion, now)


def verdict(report: Report, suite: Suite) -> SuiteVerdict:
    (found,) = [one for one in report.verdicts if one.suite is suite]
    return found


def test_what_is_sound_passes_and_the_pages_say_so(engine: Engine, tmp_path: Path, database_url: str) -> None:
    fill(engine, "anna")
    fill(engine, "bert", 5, "turn")
    with psycopg.connect(database_url) as admin:
        admin.execute("UPDATE memory SET updated_at = now() - interval '1 day' WHERE id IN ('turn0', 'turn1')")
    work = engine.lifecycle.archive_work()
    assert archive.step(work, archive.plan(["bert"])[0]).archived == 2
    assert snapshot.step(engine.safekeeping.snapshot_work(), "anna").parts > 0
    report = judged(engine, "anna", "bert")
    assert report.reasons == ""
    assert {one.suite: one.rows for one in report.verdicts} == {
        Suite.IMPORTED: 17,
        Suite.EMBEDDED: 15,
        Suite.ARCHIVE: 3,
    }
    assert report.nothing == (Suite.GENERATION,)
    page = Path(report.docs)
    assert page == DataDocs(tmp_path / "quality").newest()
    pages = b"".join(one.read_bytes() for one in page.parent.rglob("*.html"))
    assert b"imported" in pages
    assert b"combination" not in pages


def test_a_tenant_that_has_nothing_yet_is_not_due(engine: Engine) -> None:
    engine.write("anna", Draft(content="waits"))
    report = judged(engine, "anna")
    assert [one.suite for one in report.verdicts] == [Suite.IMPORTED]
    assert set(report.nothing) == {Suite.EMBEDDED, Suite.GENERATION, Suite.ARCHIVE}


BROKEN = [
    ("version = 3", "version_agrees among"),
    ("embedding_id = gen_random_uuid()", "point_is_its_own among"),
    ("content = ' '", "has_text among"),
    ("scope = ''", "scope_is_given among"),
]


@pytest.mark.parametrize(("change", "check"), BROKEN)
def test_a_broken_record_fails_by_the_check_and_the_tenant(
    engine: Engine, database_url: str, change: str, check: str
) -> None:
    fill(engine, "anna", 3)
    fill(engine, "bert", 3)
    with psycopg.connect(database_url) as admin:
        admin.execute("SET session_replication_role = replica")
        admin.execute(f"UPDATE memory SET {change} WHERE tenant = 'bert' AND id = 'memory1'".encode())
    report = judged(engine, "anna", "bert")
    assert not report.passed
    failed = {one.name: one for suite in report.verdicts for one in suite.checks if not one.passed}
    assert (failed[check].failed, failed[check].tenants) == (1, ("bert",))
    assert check in report.reasons


def test_a_point_that_is_lost_fails_and_one_that_waits_does_not(engine: Engine) -> None:
    fill(engine, "anna", 4)
    engine.write("anna", Draft(id="late", content="waits"))
    assert verdict(judged(engine, "anna"), Suite.EMBEDDED).passed
    engine._index.delete("anna.g1", {embedding_id("anna", "memory2"): 99})
    found = verdict(judged(engine, "anna", now=NOW + timedelta(days=1)), Suite.EMBEDDED)
    assert (found.passed, found.rows) == (False, 4)
    assert "is_there among (1 rows) of anna" in found.reasons


def test_an_index_that_is_gone_fails(chosen: dict[str, Any], tmp_path: Path) -> None:
    with open_engine(load_settings(**chosen)) as engine:
        fill(engine, "anna", 3)
    shutil.rmtree(tmp_path / "vectors" / "anna.g1")
    with open_engine(load_settings(**chosen)) as engine:
        found = verdict(judged(engine, "anna"), Suite.EMBEDDED)
    assert "is_there among (3 rows) of anna" in found.reasons


def test_an_object_that_is_not_as_it_was_written_fails(engine: Engine, tmp_path: Path, database_url: str) -> None:
    fill(engine, "anna", 3, "turn")
    with psycopg.connect(database_url) as admin:
        admin.execute("UPDATE memory SET updated_at = now() - interval '1 day'")
    assert archive.step(engine.lifecycle.archive_work(), archive.plan(["anna"])[0]).archived == 3
    first, second, _ = sorted((tmp_path / "objects").rglob("turn*.zst"))
    first.write_bytes(b"rotten")
    second.unlink()
    found = verdict(judged(engine, "anna"), Suite.ARCHIVE)
    assert "is_as_written among (2 rows) of anna" in found.reasons
    assert "is_there among (1 rows) of anna" in found.reasons


def test_a_snapshot_whose_part_is_gone_fails(engine: Engine, tmp_path: Path) -> None:
    fill(engine, "anna", 3)
    assert snapshot.step(engine.safekeeping.snapshot_work(), "anna").parts == 1
    (part,) = [one for one in (tmp_path / "objects").rglob("*.parquet") if ".keys." not in one.name]
    part.unlink()
    assert "is_as_written among (1 rows) of anna" in verdict(judged(engine, "anna"), Suite.ARCHIVE).reasons


def test_a_store_out_of_reach_fails_its_suite_and_no_other(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(engine, "anna", 3)

    def away(*_: object) -> None:
        raise Unavailable("the index is away")

    monkeypatch.setattr(engine._index, "vectors", away)
    report = judged(engine, "anna")
    assert verdict(report, Suite.IMPORTED).passed
    assert verdict(report, Suite.EMBEDDED).problems == {"anna": "the index is away"}
    assert not verdict(report, Suite.EMBEDDED).passed


@pytest.fixture
def docs(tmp_path: Path) -> DataDocs:
    return DataDocs(tmp_path / "docs")


def gate(*checks: str, failed: str = "") -> GateVerdict:
    return GateVerdict(checks=tuple(Check(name=name, passed=name != failed) for name in checks), at=NOW)


def test_a_frame_without_rows_fails_in_every_suite(docs: DataDocs) -> None:
    verdicts, _ = docs.judge([frame_of(suite, [], []) for suite in Suite], NOW)
    assert [one.passed for one in verdicts] == [False] * len(Suite)
    assert all("no rows" in one.reasons and "rows" in one.reasons for one in verdicts)


def test_a_tenant_that_is_due_and_has_no_rows_fails(docs: DataDocs) -> None:
    rows = verdict_rows("anna", gate(*GATE_CHECKS))
    (found,), _ = docs.judge([frame_of(Suite.GENERATION, rows, ["anna", "bert"])], NOW)
    assert not found.passed
    assert "tenant tenants of bert" in found.reasons


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (gate(*GATE_CHECKS), ""),
        (gate(*GATE_CHECKS - {"latency"}), "was_made among (1 rows) of anna"),
        (gate(*GATE_CHECKS, failed="vectors"), "passed among (1 rows) of anna"),
        (None, f"was_made among ({len(GATE_CHECKS)} rows) of anna"),
    ],
)
def test_a_generation_is_let_pass_by_all_checks_of_its_gate_alone(
    docs: DataDocs, said: GateVerdict | None, reason: str
) -> None:
    (found,), _ = docs.judge([frame_of(Suite.GENERATION, verdict_rows("anna", said), ["anna"])], NOW)
    assert found.passed == (reason == "")
    assert reason in found.reasons


def test_a_check_that_was_not_made_fails() -> None:
    asked = tuple(rule.name for rule in rules_of(frame_of(Suite.GENERATION, [], ["anna"])))
    made = tuple(Checked(name=name, passed=True) for name in asked)
    whole = SuiteVerdict(suite=Suite.GENERATION, rows=1, asked=asked, checks=made)
    assert whole.passed
    assert not replace(whole, checks=made[1:]).passed
    assert f"{asked[0]}: not checked" in replace(whole, checks=made[1:]).reasons
    assert not replace(whole, asked=(), checks=()).passed


def test_a_value_that_is_missing_fails_and_does_not_pass_for_lack_of_anything_to_compare(docs: DataDocs) -> None:
    rows = [{**one, "passed": None} for one in verdict_rows("anna", gate(*GATE_CHECKS))]
    (found,), _ = docs.judge([frame_of(Suite.GENERATION, rows, ["anna"])], NOW)
    assert "passed filled" in found.reasons


def test_the_last_runs_are_kept_and_no_half_written_one(docs: DataDocs, tmp_path: Path) -> None:
    for old in range(KEPT + 3):
        page = tmp_path / "docs" / f"2026010{old // 10}T0{old % 10}" / "index.html"
        page.parent.mkdir(parents=True)
        page.touch()
    _, page_of = docs.judge([frame_of(Suite.GENERATION, verdict_rows("anna", gate(*GATE_CHECKS)), ["anna"])], NOW)
    assert len(list((tmp_path / "docs").iterdir())) == KEPT
    assert docs.newest() == Path(page_of)


def test_a_folder_that_cannot_be_written_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="data docs"):
        DataDocs(tmp_path / "file").judge([frame_of(Suite.GENERATION, [], [])], NOW)


def test_a_run_draws_so_many_tenants_and_others_the_next_time() -> None:
    tenants = [f"t{n}" for n in range(100)]
    drawn = [quality.plan(tenants, 10, random.Random(seed))[0].tenants for seed in range(40)]
    assert {len(one) for one in drawn} == {10}
    assert len(set().union(*drawn)) > 90
    assert quality.plan([], 10, random.Random(1)) == []


def test_searching_never_imports_what_judges(chosen: dict[str, Any]) -> None:
    source = f"""
import sys
from core.assembly import open_engine
from core.model.memory import Draft
from core.settings import load_settings
chosen = {{"home": {str(chosen["home"])!r}, "postgres_url": {chosen["postgres_url"]!r}, "cache": False}}
with open_engine(load_settings(**chosen)) as engine:
    engine.write("anna", Draft(content="green tea"))
    assert engine.search("anna", "tea").found
print(sorted(name for name in ("great_expectations", "pandas", "polars", "prefect") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_every_sample_is_bounded(chosen: dict[str, Any]) -> None:
    with open_engine(load_settings(**chosen, quality_rows=20)) as engine:
        fill(engine, "anna", 30)
        assert verdict(judged(engine, "anna"), Suite.IMPORTED).rows == 20
        sampling = engine.watch.quality_work(NOW, random.Random(3)).sampling
        first, second = ({row["id"] for row in sampling.imported("anna")} for _ in range(2))
    assert first != second  # from another place on
