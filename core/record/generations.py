"""Generations in the record: listing them, and registering one behind the barrier."""

from __future__ import annotations

from psycopg.types.json import Jsonb

from core.errors import Misconfigured
from core.model.generation import Generation, GenerationState
from core.model.names import index_group
from core.model.space import EmbeddingSpace
from core.record.database import Database, Row, Session
from core.record.queries import query


def generations(session: Session, tenant: str) -> list[Generation]:
    """Every generation of a tenant, oldest first, dropped ones included."""
    rows = session.execute(query("generation_list"), {"tenant": tenant}).fetchall()
    return [generation_of(row) for row in rows]


def live_generation(session: Session, tenant: str) -> Generation | None:
    """The generation that serves a tenant's searches; None: the tenant never wrote."""
    live = [one for one in generations(session, tenant) if one.state is GenerationState.LIVE]
    return live[0] if live else None


def register_first(database: Database, tenant: str, space: EmbeddingSpace) -> Generation:
    """Make sure a tenant has a generation: number 1, live from the start, in `space`; the live one if it has.

    A transaction of its own, under the exclusive side of the registration barrier (DESIGN.md
    section 4). Raises Busy when writers hold the barrier longer than the lock timeout: try again.
    """
    with database.tenant(tenant) as session:
        session.execute(query("generation_barrier"), {"tenant": tenant})
        known = live_generation(session, tenant)
        if known is not None:
            return known
        values = {
            "tenant": tenant,
            "index_group": index_group(tenant),
            "space": Jsonb(space.as_dict()),
            "fingerprint": space.fingerprint,
            "state": GenerationState.LIVE.value,
        }
        row = session.execute(query("generation_register"), values).fetchone()
        if row is None:
            raise Misconfigured("generations cannot be registered: is a rule or trigger on the table?")
        return generation_of(row)


def generation_of(row: Row) -> Generation:
    """A row of the generation table as a Generation."""
    return Generation(
        tenant=row["tenant"],
        number=row["number"],
        index_group=row["index_group"],
        space=EmbeddingSpace(**row["space"]),
        state=GenerationState(row["state"]),
        recovering=bool(row.get("recovering", False)),
    )
