"""Facts that policies judge by, and the small changes that follow: tiers, keep marks, times of access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from core.model.policy import Facts, Policies
from core.record.database import Database, Session
from core.record.queries import query


@dataclass(frozen=True, slots=True)
class Over:
    """Memories of one type that are at their end: how many, and some ids."""

    type: str
    memories: int
    examples: list[str]


def scan(session: Session, tenant: str, after: str, limit: int, least: timedelta) -> tuple[list[Facts], datetime]:
    """Facts of memories that rest for `least` or are cold, in the order of ids behind `after`; the database's time."""
    values = {"tenant": tenant, "after": after, "limit": limit, "least": least}
    rows = session.execute(query("lifecycle_scan"), values).fetchall()
    moment = rows[0]["moment"] if rows else datetime.max.replace(tzinfo=UTC)
    return [Facts(**{name: value for name, value in row.items() if name != "moment"}) for row in rows], moment


def set_tier(session: Session, tenant: str, versions: Mapping[str, int], tier: str) -> int:
    """Put memories that are still at these versions into another tier; how many."""
    values = {"tenant": tenant, "ids": list(versions), "versions": list(versions.values()), "tier": tier}
    return len(session.execute(query("lifecycle_tier"), values).fetchall())


def keep(session: Session, tenant: str, ids: Sequence[str], *, keep: bool) -> list[str]:
    """Mark memories to be kept, or no longer; the ids of those that are there. A kept memory loses its end."""
    values = {"tenant": tenant, "ids": sorted(ids), "keep": keep}
    return sorted(row["id"] for row in session.execute(query("lifecycle_keep"), values).fetchall())


def note_access(session: Session, tenant: str, ages: Mapping[str, timedelta]) -> None:
    """Note when memories were last read, each so long ago."""
    values = {"tenant": tenant, "ids": list(ages), "ages": list(ages.values())}
    session.execute(query("lifecycle_access"), values)


def over(session: Session, tenant: str, policies: Policies) -> list[Over]:
    """What is at its end now, by type, under the policies; kept memories left out."""
    rows = session.execute(query("lifecycle_over"), {"tenant": tenant, **lives_of(policies, tenant)}).fetchall()
    return [Over(**row) for row in rows]


def lives_of(policies: Policies, tenant: str) -> dict[str, object]:
    """Times to live as queries take them: of the types that are named, and of all others."""
    named = policies.types(tenant)
    return {
        "types": named,
        "lives": [policies.of(tenant, kind).time_to_live for kind in named],
        "life": policies.of(tenant, None).time_to_live,
    }


def tenants(database: Database, chosen: Sequence[str] | None) -> list[str]:
    """Every tenant there is, or those of the chosen ones that are."""
    with database.across() as session:
        names = None if chosen is None else list(chosen)
        return [row["tenant"] for row in session.execute(query("lifecycle_tenants"), {"tenants": names}).fetchall()]
