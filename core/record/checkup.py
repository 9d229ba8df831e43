"""Looking PostgreSQL over: version, rights, clock, room for connections, and the spaces tenants are served in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from core.model.finding import Finding, Verdict
from core.model.space import EmbeddingSpace
from core.record.database import APP_ROLE, WORKER_ROLE, Database, Limits, Row, connect
from core.record.failures import translated
from core.record.migrate import pending
from core.record.queries import query

OLDEST_VERSION = 150_000
WORST_SKEW = timedelta(seconds=2)
STORE = "record"


def examine_record(url: str, limits: Limits, now: Callable[[], datetime], *, ours: bool) -> Iterator[Finding]:
    """What there is to say of the server behind `url`; `ours` is the embedded one. Raises as any call on it does."""
    with translated(), connect(url, limits) as session:
        asked = time.monotonic()
        row = session.execute(query("server_state")).fetchone()
        lasted = timedelta(seconds=time.monotonic() - asked)
        roles = session.execute(query("server_roles"), {"roles": [APP_ROLE, WORKER_ROLE]}).fetchall()
        waiting = pending(session)
    if row is None:
        return
    yield _version(row)
    yield from _server(row)
    yield _clock(row["moment"], now() - lasted / 2)
    yield _rights(row, ours=ours)
    yield _schema(waiting)
    yield from (_role(role) for role in roles)
    yield _room(row, limits)


def examine_spaces(
    database: Database, ours: EmbeddingSpace, served: Callable[[EmbeddingSpace], bool]
) -> Iterator[Finding]:
    """Tenants that are in another embedding space than the settings choose, and whether its model can be asked."""
    with database.across() as session:
        rows = session.execute(query("generation_spaces")).fetchall()
    others = [row for row in rows if row["fingerprint"] != ours.fingerprint]
    for row in others:
        space = EmbeddingSpace(**row["space"])
        fine = served(space)
        yield Finding(
            store="embedding",
            check="space",
            verdict=Verdict.WARNING if fine else Verdict.PROBLEM,
            detail=f"{row['tenants']} tenants are in {space.provider} {space.model}, {space.dimensions} dimensions",
            advice="reindex them" if fine else "choose that model again, name it in embedding_models, or reindex them",
        )
    if not others:
        count = sum(int(row["tenants"]) for row in rows)
        yield Finding(
            store="embedding", check="space", verdict=Verdict.OK, detail=f"the chosen one for all {count} tenants"
        )


def _found(check: str, fine: bool, detail: str, advice: str, *, bad: Verdict = Verdict.PROBLEM) -> Finding:
    return Finding(
        store=STORE,
        check=check,
        verdict=Verdict.OK if fine else bad,
        detail=detail,
        advice="" if fine else advice,
    )


def _version(row: Row) -> Finding:
    fine = row["version_number"] >= OLDEST_VERSION
    return _found("version", fine, f"PostgreSQL {row['version']}", "upgrade to PostgreSQL 15 or newer")


def _server(row: Row) -> Iterator[Finding]:
    encoding = row["encoding"]
    yield _found("encoding", encoding == "UTF8", encoding, "make the database anew with ENCODING 'UTF8'")
    if row["is_replica"]:
        yield _found("primary", False, "this server is a replica", "name the primary: target_session_attrs=read-write")


def _clock(theirs: datetime, ours: datetime) -> Finding:
    skew = abs(theirs - ours)
    detail = f"{skew.total_seconds():.1f} s apart from this machine's"
    advice = "set both clocks by NTP: leases and retention go by PostgreSQL's, logs by this one"
    return _found("clock", skew <= WORST_SKEW, detail, advice, bad=Verdict.WARNING)


def _rights(row: Row, *, ours: bool) -> Finding:
    if row["passes_policies"] and not ours:
        advice = "connect as an ordinary role that owns the database: this one passes row-level security"
        return _found("rights", False, f"{row['role']} is a superuser", advice, bad=Verdict.WARNING)
    advice = "grant CREATE on schema public, or let the owner run `memory init` once"
    return _found("rights", row["may_create"], f"connects as {row['role']}", advice, bad=Verdict.WARNING)


def _schema(waiting: list[str]) -> Finding:
    detail = f"{len(waiting)} migrations to come" if waiting else "up to date"
    return _found("schema", not waiting, detail, "run `memory init`", bad=Verdict.WARNING)


def _role(role: Row) -> Finding:
    if role["passes_policies"]:
        advice = f"ALTER ROLE {role['role']} NOSUPERUSER NOBYPASSRLS"
        return _found("role", False, f"{role['role']} passes row-level security", advice)
    return _found("role", role["may_take"], role["role"], f"GRANT {role['role']} to the connecting role")


def _room(row: Row, limits: Limits) -> Finding:
    free = row["max_connections"] - row["connections"]
    detail = f"{free} of {row['max_connections']} free, {limits.connections} asked for by each process"
    return _found(
        "connections",
        free >= limits.connections,
        detail,
        "raise max_connections, or stand a pooler before it",
        bad=Verdict.WARNING,
    )
