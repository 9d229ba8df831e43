"""Locks that cannot do harm: Redis says who works, a fencing number in PostgreSQL says whose work counts.

The protocol is Martin Kleppmann's ("How to do distributed locking", 2016): each time a lock is taken it gets
a higher number, and the resource refuses a lower one. Here the resource is the record itself: the critical
step is a transaction that first checks the number and thereby keeps the next owner waiting until it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from core.errors import Busy, LeaseLost
from core.ports import Locks
from core.record.database import Database, Session
from core.record.queries import query


@dataclass(frozen=True, slots=True, kw_only=True)
class LockName:
    """What a lock is for: one piece of work (`swap`, `archive`) of one tenant."""

    tenant: str
    work: str

    @property
    def key(self) -> str:
        """Its name in the lock store. No work holds a colon, so no two names meet."""
        return f"{self.work}:{self.tenant}"


class Fenced:
    """A lock that is held, as far as anybody can say. `certain` is False while the lock store is out of reach."""

    def __init__(self, name: LockName, number: int, renewal: _Renewal) -> None:
        self.name = name
        self.number = number
        self._renewal = renewal

    @property
    def certain(self) -> bool:
        """Whether the lock store said so at the last call; if not, another owner may have begun meanwhile."""
        return self._renewal.certain

    def renew(self) -> None:
        """Keep the lock for its full time from now. Call it between steps. Raises LeaseLost when another has it."""
        self._renewal.renew(self.name.key)

    def check(self, session: Session) -> None:
        """First statement of a critical transaction of the lock's tenant. Raises LeaseLost: another took over.

        Until that transaction ends, nobody else can take the lock.
        """
        row = session.execute(query("fence_check"), {"tenant": self.name.tenant, "name": self.name.work}).fetchone()
        if row is None or row["number"] != self.number:
            raise LeaseLost(f"another worker has taken over {self.name.work}")


@dataclass(slots=True)
class _Renewal:
    locks: Locks
    owner: str
    keep: timedelta
    certain: bool

    def renew(self, key: str) -> None:
        ours = self.locks.renew(key, self.owner, self.keep)
        if ours is False:
            # It ran out. That is no harm as long as nobody else has taken it since.
            ours = self.locks.take(key, self.owner, self.keep)
        if ours is False:
            raise LeaseLost("another worker has taken over")
        self.certain = ours is True


@contextmanager
def fenced(database: Database, locks: Locks, name: LockName, owner: str, keep: timedelta) -> Iterator[Fenced]:
    """Hold a lock for a block. `owner` is unique to this run; `keep` is how long it lasts without `renew`.

    Raises Busy when another has it. With the lock store out of reach the block runs all the same: two may
    then work at once, and the one who took the lock last is the one whose `check` passes.
    """
    ours = locks.take(name.key, owner, keep)
    if ours is False:
        raise Busy(f"{name.work} of this tenant is under way elsewhere", work=name.work)
    try:
        with database.tenant(name.tenant) as session:
            row = session.execute(query("fence_take"), {"tenant": name.tenant, "name": name.work}).fetchone()
        assert row is not None  # noqa: S101  RETURNING of an upsert
        yield Fenced(name, int(row["number"]), _Renewal(locks, owner, keep, certain=ours is True))
    finally:
        locks.free(name.key, owner)
