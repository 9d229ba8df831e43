"""How many tasks a run is: hundreds for a million records, whether they are one tenant's or ten thousand's."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flows.archive
import flows.reap
import flows.rotate
import tasks.relay
from core.batch.batch_lane import plan as plan_jobs
from core.batch.embed import Portion, packed, plan
from core.batch.recover import RecoverWork
from core.batch.rotate import RotateWork
from core.model.drift import looks_of
from core.model.outbox import Backlog
from core.settings import Settings
from flows.embed import SMALL
from tasks.batch_lane import PIECE

MILLION = 1_000_000
DEFAULTS = Settings()


def default_of(kind: type, name: str) -> int:
    (found,) = [one.default for one in dataclasses.fields(kind) if one.name == name]
    assert isinstance(found, int)
    return found


def backlog(tenants: int, records: int) -> list[Backlog]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [Backlog(f"t{one}", records // tenants, records // tenants, 0, at) for one in range(tenants)]


@pytest.mark.parametrize("tenants", [1, 10, 1000, 10_000])
def test_to_embed_a_million_records_is_hundreds_of_tasks(tenants: int) -> None:
    portions = plan(backlog(tenants, MILLION), DEFAULTS.embed_portion)
    packs = packed(portions, DEFAULTS.embed_portion // SMALL)
    assert sum(one.records for pack in packs for one in pack) == MILLION
    assert 100 <= len(packs) < 1000
    assert all(sum(one.records for one in pack) >= 1000 for pack in packs)  # what a thousand and more take is seconds


def test_so_are_all_other_runs_over_a_million_records_of_a_tenant() -> None:
    ahead = max(2, DEFAULTS.embed_tasks) * DEFAULTS.embed_portion
    pieces = {
        "reindex": MILLION / ahead + MILLION / DEFAULTS.embed_portion,  # fed so many ahead, then embedded
        "batch lane": MILLION / PIECE * len(plan_jobs(backlog(1, MILLION), PIECE)),
        "reconcile": len(looks_of([("t", MILLION)], DEFAULTS.reconcile_portion)),
        "recover": MILLION / default_of(RecoverWork, "portion"),
        "snapshot": MILLION / DEFAULTS.snapshot_portion,
        "archive": MILLION / (DEFAULTS.archive_batch * flows.archive.BATCHES_A_TASK),
        "reap": MILLION / (DEFAULTS.reap_batch * flows.reap.BATCHES_A_TASK),
        "rotate": MILLION / (default_of(RotateWork, "batch") * flows.rotate.BATCHES_A_TASK),
        "relay": MILLION / tasks.relay.PORTION,
    }
    assert {chore: number < 1000 for chore, number in pieces.items()} == dict.fromkeys(pieces, True)


PORTIONS = st.lists(st.builds(Portion, tenant=st.sampled_from("abcdef"), records=st.integers(1, 50)))


@given(PORTIONS, st.integers(0, 60))
def test_packs_hold_every_portion_once_in_order_within_the_bound(portions: list[Portion], least: int) -> None:
    packs = packed(portions, least)
    assert [one for pack in packs for one in pack] == portions
    assert all(len(pack) == 1 or sum(one.records for one in pack) <= least for pack in packs)
    for before, after in pairwise(packs):  # nothing that had room stands alone
        assert sum(one.records for one in before) + after[0].records > least
