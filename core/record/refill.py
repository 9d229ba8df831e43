"""What a release adds to rows that were written before it: terms for the keyword leg, places in threads."""

from __future__ import annotations

from collections.abc import Iterator

from core.model.terms import TERMS_EDITION
from core.record.database import Database
from core.record.keywords import put_terms
from core.record.memories import memory_of
from core.record.queries import query

PIECE = 2000
THREADS = 200


def refill(database: Database, tenant: str) -> Iterator[int]:
    """Bring a tenant's older rows up to this release, in committed pieces; the number of rows of each.

    Rows that are as they should be are passed over, so it can be ended anywhere and run again, also by two.
    """
    placed = 1
    while placed > 0:
        with database.tenant(tenant) as session:
            values = {"tenant": tenant, "threads": THREADS}
            placed = session.execute(query("place_fill"), values).rowcount
        if placed > 0:
            yield placed
    after = ""
    while True:
        with database.tenant(tenant) as session:
            values = {"tenant": tenant, "after": after, "edition": TERMS_EDITION, "limit": PIECE}
            rows = session.execute(query("keyword_lacking"), values).fetchall()
            put_terms(session, tenant, {row["embedding_id"]: memory_of(row) for row in rows})
        if not rows:
            return
        after = rows[-1]["id"]
        yield len(rows)
