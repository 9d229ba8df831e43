"""Generations that are being built: registering one, driving it under a lease, its verdict, giving it up."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta

from psycopg.types.json import Jsonb

from core.errors import Busy, Conflict, LeaseLost, Misconfigured, NotFound
from core.model.generation import Generation, GenerationState
from core.model.reindex import GateVerdict, GenerationStatus, Registered, verdict_of
from core.model.space import EmbeddingSpace
from core.record.database import Database, Row, Session
from core.record.generations import generation_of, generations
from core.record.queries import query

UNDER_CONSTRUCTION = frozenset({GenerationState.BUILDING, GenerationState.VERIFIED})


class Building:
    """Generations under construction, at most one a tenant. `lease` is how long a run drives without a word."""

    def __init__(self, database: Database, lease: timedelta) -> None:
        self._database = database
        self._lease = lease

    def register(self, tenant: str, space: EmbeddingSpace, runner: uuid.UUID) -> Registered | None:
        """A generation in `space`, driven by `runner`: a new one, or the one begun before. None: the live one is in it.

        A transaction of its own, under the exclusive side of the registration barrier (DESIGN.md section
        4): every write that commits after it reaches the new generation too. Raises NotFound for a tenant
        that never wrote; Conflict when one is being built in another space; Busy when another run drives it, or
        when writers hold the barrier longer than the lock timeout.
        """
        with self._database.tenant(tenant) as session:
            session.execute(query("generation_barrier"), {"tenant": tenant})
            known = generations(session, tenant)
            live = next((one for one in known if one.state is GenerationState.LIVE), None)
            if live is None:
                raise NotFound(f"tenant {tenant} has no memories yet")
            begun = next((one for one in known if one.state in UNDER_CONSTRUCTION), None)
            if begun is not None and begun.space.fingerprint != space.fingerprint:
                raise Conflict(
                    f"a reindex of {tenant} to {begun.space.model} is under way (generation {begun.number}): let it "
                    "end, or give it up with `memory generations abort`"
                )
            if begun is not None:
                self._drive(session, begun, runner)
                return Registered(generation=begun, live=live, resumed=True)
            if live.space.fingerprint == space.fingerprint:
                return None
            return Registered(generation=self._build(session, live, space, runner), live=live, resumed=False)

    def drive(self, generation: Generation, runner: uuid.UUID) -> GenerationState:
        """Keep the lease for its full time from now; where the generation stands. Raises LeaseLost, Conflict."""
        with self._database.tenant(generation.tenant) as session:
            try:
                return self._drive(session, generation, runner)
            except Busy as problem:
                raise LeaseLost(problem.message) from None

    def leave(self, generation: Generation, runner: uuid.UUID) -> None:
        """Let another run drive it at once."""
        with self._database.tenant(generation.tenant) as session:
            values = {"tenant": generation.tenant, "number": generation.number, "runner": runner}
            session.execute(query("generation_leave"), values)

    def judge(self, generation: Generation, verdict: GateVerdict) -> GenerationState:
        """Keep what the gate said; the state that follows from it. Raises Conflict when it is no longer built, Busy."""
        values = {
            "tenant": generation.tenant,
            "number": generation.number,
            "verdict": Jsonb(verdict.as_dict()),
            "passed": verdict.passed,
        }
        with self._database.tenant(generation.tenant) as session:
            named = {"tenant": generation.tenant, "number": generation.number}
            session.execute(query("generation_lock"), named)
            if _swapping(session, generation.tenant, generation.number):
                raise Busy(f"a swap to generation {generation.number} of {generation.tenant} is under way")
            row = session.execute(query("generation_verdict"), values).fetchone()
        if row is None:
            raise Conflict(f"generation {generation.number} of {generation.tenant} is no longer being built")
        return GenerationState(row["state"])

    def abort(self, tenant: str, number: int, reason: str, idle: timedelta | None = None) -> bool:
        """Give one up; it is written to until it is dropped. False: it is not under construction, or not idle enough.

        Raises Busy while a swap to it is open.
        """
        with self._database.tenant(tenant) as session:
            session.execute(query("generation_lock"), {"tenant": tenant, "number": number})
            if _swapping(session, tenant, number):
                raise Busy(f"a swap to generation {number} of {tenant} is under way")
            values = {"tenant": tenant, "number": number, "reason": reason, "idle": idle}
            return session.execute(query("generation_abort"), values).fetchone() is not None

    def spent(self, generation: Generation) -> int:
        """Tokens its model has taken for the tenant since it was registered, all generations in its space together."""
        space = generation.space
        values = {"provider": space.provider, "model": space.model}
        with self._database.tenant(generation.tenant) as session:
            named = {"tenant": generation.tenant, "number": generation.number}
            row = session.execute(query("generation_spent"), {**named, **values}).fetchone()
        return 0 if row is None else int(row["tokens"])

    def idle(self, span: timedelta) -> list[tuple[str, int]]:
        """Tenant and number of those nobody has driven for so long. One that passed its gate waits for a person."""
        with self._database.across() as session:
            rows = session.execute(query("generation_idle"), {"idle": span}).fetchall()
        return [(row["tenant"], int(row["number"])) for row in rows]

    def _build(self, session: Session, live: Generation, space: EmbeddingSpace, runner: uuid.UUID) -> Generation:
        values = {
            "tenant": live.tenant,
            "index_group": live.index_group,
            "space": Jsonb(space.as_dict()),
            "fingerprint": space.fingerprint,
            "provider": space.provider,
            "model": space.model,
            "runner": runner,
            "lease": self._lease,
        }
        row = session.execute(query("generation_build"), values).fetchone()
        if row is None:
            raise Misconfigured("generations cannot be registered: is a rule or trigger on the table?")
        return generation_of(row)

    def _drive(self, session: Session, generation: Generation, runner: uuid.UUID) -> GenerationState:
        named = {"tenant": generation.tenant, "number": generation.number}
        row = session.execute(query("generation_run"), {**named, "runner": runner, "lease": self._lease}).fetchone()
        if row is not None:
            return GenerationState(row["state"])
        held = session.execute(query("generation_lock"), named).fetchone()
        if held is not None and GenerationState(held["state"]) in UNDER_CONSTRUCTION:
            raise Busy(f"the reindex of {generation.tenant} is under way elsewhere", generation=generation.number)
        stands = "gone" if held is None else held["state"]
        raise Conflict(f"generation {generation.number} of {generation.tenant} is {stands}", state=stands)


def _swapping(session: Session, tenant: str, number: int) -> bool:
    intent = session.execute(query("swap_open"), {"tenant": tenant}).fetchone()
    return intent is not None and intent["to_generation"] == number


def statuses(database: Database, tenants: Sequence[str] | None, *, dropped: bool = False) -> list[GenerationStatus]:
    """Every generation of all tenants, or of those named, with what waits for it; dropped ones if asked for."""
    names = None if tenants is None else list(tenants)
    with database.across() as session:
        rows = session.execute(query("generation_status"), {"tenants": names, "dropped": dropped}).fetchall()
    return [_status(row) for row in rows]


def _status(row: Row) -> GenerationStatus:
    given = {name: value for name, value in row.items() if name not in {"state", "space", "verdict", "running"}}
    return GenerationStatus(
        **given,
        state=GenerationState(row["state"]),
        space=EmbeddingSpace(**row["space"]),
        verdict=None if row["verdict"] is None else verdict_of(row["verdict"]),
        running=bool(row["running"]),
    )
