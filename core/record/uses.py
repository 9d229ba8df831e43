"""What embedding took: noted in the transaction that ends a batch, read for reports and budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from core.model.space import EmbeddingSpace
from core.model.use import DayOfUse, Use
from core.record.database import Database, Session
from core.record.queries import query


def add_use(session: Session, tenant: str, space: EmbeddingSpace, use: Use) -> None:
    """Note what a batch of a tenant took, under today (UTC, by the database's clock)."""
    values = {"tenant": tenant, "provider": space.provider, "model": space.model, **asdict(use)}
    session.execute(query("use_add"), values)


def uses(database: Database, days: int, tenants: Sequence[str] | None = None) -> list[DayOfUse]:
    """Use of the last `days` days, today among them, newest first; of all tenants or those named."""
    with database.across() as session:
        named = None if tenants is None else list(tenants)
        rows = session.execute(query("use_list"), {"days": days, "tenants": named}).fetchall()
    own = ("tenant", "day", "provider", "model")
    return [
        DayOfUse(
            **{name: row[name] for name in own},
            use=Use(**{name: int(value) for name, value in row.items() if name not in own}),
        )
        for row in rows
    ]


def tokens_today(database: Database) -> int:
    """Tokens asked of all models today, over all tenants."""
    with database.across() as session:
        row = session.execute(query("use_today")).fetchone()
    return 0 if row is None else int(row["tokens"])
