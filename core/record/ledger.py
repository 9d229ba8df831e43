"""The ledger of deletions on the object store: a record restored from a backup reads it, and the deleted stay deleted.

One object a piece, below the tenant's own prefix: ids, versions and times, no content. Pieces are only ever added. A
piece written twice says the same twice, which changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.errors import BadAnswer
from core.model.names import index_group
from core.ports import BlobStore
from core.record.database import Database
from core.record.queries import query

FOLDER = "deletions"
EPOCHS = "@engine/epochs/"  # `@` stands in no encoded name of a tenant
PIECE = 5000
MOST_PIECES = 1000
_EPOCH = re.compile(rf"{re.escape(EPOCHS)}(\d{{5}})")


@dataclass(frozen=True, slots=True)
class Deletion:
    """A memory that was deleted: the version of its tombstone, and when."""

    id: str
    version: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many deletions a tenant's ledger holds, how many were done again, and the pieces that cannot be read."""

    tenant: str
    known: int
    done_again: int
    unreadable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Ships deletions to the object store, and replays them."""

    database: Database
    blobs: BlobStore

    def ship(self, tenants: Sequence[str] | None = None) -> int:
        """Write every deletion that is committed and not there yet; how many.

        Never passes a transaction still in flight. Raises Transient when a store is out of reach: the next run
        goes on where this one ended.
        """
        with self.database.across() as session:
            waiting = [row["tenant"] for row in session.execute(query("ledger_tenants")).fetchall()]
        return sum(self._ship(tenant) for tenant in waiting if tenants is None or tenant in tenants)

    def announce(self, tenant: str, piece: Sequence[Deletion]) -> None:
        """Write deletions that are about to be made, of rows that leave no event behind. Twice says the same twice."""
        if piece:
            data = _written(tenant, piece)
            self.blobs.put(f"{folder(tenant)}erased-{hashlib.sha256(data).hexdigest()[:32]}.jsonl", data)

    def replay(self, tenant: str) -> Replayed:
        """Delete again every memory of a tenant the ledger says is deleted and that was not written since."""
        known = again = 0
        unreadable: list[str] = []
        for key in self._keys(tenant):
            try:
                piece = _read(self.blobs.get(key), tenant)
            except BadAnswer:
                unreadable.append(key)
                continue
            known += len(piece)
            values = {
                "tenant": tenant,
                "ids": [one.id for one in piece],
                "versions": [one.version for one in piece],
                "times": [one.at for one in piece],
            }
            with self.database.tenant(tenant) as session:
                again += len(session.execute(query("memory_delete_again"), values).fetchall())
        return Replayed(tenant, known, again, tuple(unreadable))

    def restore(self) -> tuple[int, list[Replayed]]:
        """After PostgreSQL was restored, before it serves: a new epoch, then every tenant's deletions once more.

        The epoch's number, and a line a tenant. Killed or failed anywhere it is run again, as a whole.
        """
        epoch = self.raise_epoch()
        with self.database.across() as session:
            rows = session.execute(query("generation_tenants")).fetchall()
        return epoch, [self.replay(row["tenant"]) for row in rows]

    def raise_epoch(self) -> int:
        """Begin a new epoch, higher than any this object store has seen; its number.

        An index may remember versions of every epoch that was ever served from, also of one a restored record has
        forgotten. What the record had shipped to the ledger is shipped again.
        """
        seen = [int(found[1]) for info in self.blobs.list(EPOCHS) if (found := _EPOCH.fullmatch(info.key))]
        least = max(seen, default=0) + 1
        with self.database.across() as session:
            row = session.execute(query("engine_raise_epoch"), {"least": least}).fetchone()
            session.execute(query("event_restamp"))
            session.execute(query("ledger_reset"))
        epoch = least if row is None else int(row["epoch"])
        self.blobs.put(f"{EPOCHS}{epoch:05}", b"")
        return epoch

    def _ship(self, tenant: str) -> int:
        shipped = 0
        for _ in range(MOST_PIECES):
            with self.database.tenant(tenant) as session:
                rows = session.execute(query("ledger_next"), {"tenant": tenant, "limit": PIECE}).fetchall()
            if not rows:
                break
            first, last = rows[0], rows[-1]
            piece = [Deletion(row["id"], int(row["version"]), row["at"]) for row in rows]
            data = _written(tenant, piece)
            # The digest, because a record restored from a backup counts its transactions again.
            name = f"{int(first['xid']):020}-{first['seq']:019}-{hashlib.sha256(data).hexdigest()[:16]}"
            self.blobs.put(f"{folder(tenant)}{name}.jsonl", data)
            with self.database.tenant(tenant) as session:
                values = {"tenant": tenant, "xid": last["xid"], "seq": last["seq"]}
                session.execute(query("ledger_shipped"), values)
            shipped += len(rows)
        return shipped

    def _keys(self, tenant: str) -> Iterator[str]:
        return (info.key for info in self.blobs.list(folder(tenant)))


def folder(tenant: str) -> str:
    """Where the ledger of a tenant is, ending in `/`."""
    return f"{index_group(tenant)}/{FOLDER}/"


def _written(tenant: str, piece: Sequence[Deletion]) -> bytes:
    lines = [json.dumps([one.id, one.version, one.at.isoformat()], ensure_ascii=False) for one in piece]
    body = "".join(f"{line}\n" for line in lines)
    head = {"tenant": tenant, "count": len(lines), "sha256": hashlib.sha256(body.encode()).hexdigest()}
    return (json.dumps(head, ensure_ascii=False) + "\n" + body).encode()


def _read(data: bytes, tenant: str) -> list[Deletion]:
    """The deletions of a piece. Raises BadAnswer for anything but what was written."""
    try:
        head, _, body = data.decode().partition("\n")
        said = json.loads(head)
        whole = (said["tenant"], said["sha256"]) == (tenant, hashlib.sha256(body.encode()).hexdigest())
        found = [json.loads(line) for line in body.split("\n") if line] if whole else []
        piece = [Deletion(one[0], int(one[1]), datetime.fromisoformat(one[2])) for one in found]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadAnswer("a piece of the ledger of deletions cannot be read") from error
    if not whole or len(piece) != said["count"]:
        raise BadAnswer("a piece of the ledger of deletions is not as it was written")
    return piece
