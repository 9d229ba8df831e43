"""The nightly flow: the closing report is made whatever happened before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

from core.assembly import open_engine
from core.assembly.metrics import reading_of
from core.errors import Misconfigured
from core.settings import load_settings

Remember = Callable[[str, int], None]


def nightly() -> Any:
    """Run the flow; the state it ends in."""
    from flows.nightly import nightly as flow

    return flow(return_state=True)


def table(key: str = "nightly-report") -> Any:
    """A report as Prefect keeps it: its rows, and the note above them."""
    import json

    from prefect.artifacts import Artifact

    artifact = Artifact.get(key)
    assert artifact is not None
    assert isinstance(artifact.data, str)
    return json.loads(artifact.data), artifact.description


def test_the_report_has_a_row_a_tenant_and_a_second_run_has_nothing_to_do(
    remember: Remember, set_aside_one: Callable[[str, str], None]
) -> None:
    remember("anna", 12)
    remember("bert", 3)
    set_aside_one("bert", "m1")
    state = nightly()
    assert (state.is_completed(), state.message) == (True, "completed, 1 set aside")
    rows = {row.tenant: row for row in state.result()}
    assert [rows["anna"].records, rows["anna"].embedded, rows["anna"].waiting, rows["anna"].set_aside] == [
        12,
        12,
        0,
        0,
    ]
    assert [rows["bert"].records, rows["bert"].embedded, rows["bert"].waiting, rows["bert"].set_aside] == [
        3,
        2,
        0,
        1,
    ]
    shown, note = table()
    assert [(row["tenant"], row["set aside"], row["cost today (USD)"]) for row in shown] == [
        ("anna", 0, 0.0),
        ("bert", 1, 0.0),
    ]
    assert shown[0]["drift"] == "clean"
    assert shown[1]["reasons"].startswith("1 × ")
    assert note.startswith(
        "embed: completed, 1 set aside; mend: completed; archive: completed; reap: completed; snapshot: completed"
    )
    again = nightly()
    assert again.is_completed()
    assert [(row.tenant, row.records, row.embedded, row.waiting) for row in again.result()] == [
        ("anna", 12, 0, 0), ("bert", 3, 0, 0),
    ]  # fmt: skip


def test_every_chore_keeps_a_table_of_what_it_has_and_the_run_a_link_to_the_pages_of_the_gates(
    server: SyncPrefectClient, remember: Remember
) -> None:
    from flows.relay import relay

    remember("anna", 3)
    state = nightly()
    chosen = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
    shown = {one.key: one for one in server.read_artifacts(artifact_filter=chosen)}
    assert shown.keys() == {"nightly-report", "data-docs"}
    assert ".html" in shown["data-docs"].data
    kept = {}
    for chore in ("mend", "reconcile", "archive", "reap", "snapshot"):
        kept[chore], _ = table(f"{chore}-report")
        assert {row["tenant"] for row in kept[chore]} == {"anna"}
    assert {row["store"]: row["verdict"] for row in kept["mend"]}["index 1"] == "clean"
    assert (kept["snapshot"][0]["rows"], kept["snapshot"][0]["damaged"]) == (3, 0)
    assert (kept["archive"][0]["archived"], kept["archive"][0]["failed"]) == (0, "")
    assert kept["reap"][0]["purged"] == 0
    relay()
    told, _ = table("relay-report")
    assert told[0]["skipped"].startswith("there is no Redis")


def test_the_report_is_made_when_embed_failed_and_says_so_and_its_errors_are_counted_by_type(
    remember: Remember, remember_elsewhere: Remember
) -> None:
    remember_elsewhere("alien", 3)
    remember("bert", 3)
    state = nightly()
    assert state.is_failed()
    result = state.result(raise_on_failure=False)
    assert isinstance(result, Misconfigured)
    rows = {row.tenant: row for row in result.details["rows"]}
    assert (rows["alien"].waiting, rows["bert"].embedded) == (3, 3)
    assert "the generation was built with" in rows["alien"].problem
    shown, note = table()
    assert note.startswith("embed: alien failed")
    assert shown[0]["problem"] == rows["alien"].problem
    with open_engine(load_settings()) as engine:
        counts = {one.labels: one.value for one in reading_of(engine).samples if one.name == "memory_errors_total"}
    assert counts == {("embed portion", "Misconfigured"): 1}  # mending does not ask again at once
    _, note = table("mend-report")
    assert "alien not embedded again: it failed just now" in note
