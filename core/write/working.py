"""Working memory: what an execution keeps for itself while it runs, and what of it becomes durable."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from core.errors import Conflict, Refused, Unavailable
from core.model.memory import Draft
from core.write import fields as rules
from core.write.gate import admit, admit_tenant, draft_of
from core.write.text import Cleaner
from core.write.writer import PIECE, Writer, Written

T = TypeVar("T")
MOST_AT_ONCE = 100


class Scratch(Protocol):
    """Entries in order under names, for a while; they may be lost with their store. No call raises.

    None: the store is out of reach, and nobody can say what became of the call.
    """

    def append(self, name: str, values: Sequence[bytes], keep: timedelta, most: int) -> bool | None:
        """Add entries behind the others, all or none, all to be kept for `keep` from now. False: more than `most`."""

    def read(self, name: str, last: int | None = None) -> list[tuple[str, bytes]] | None:
        """Places and values of the entries, in order; of the `last` ones only."""

    def trim(self, name: str, last: int) -> int | None:
        """Forget all but the `last` entries; how many went."""

    def remove(self, name: str, places: Sequence[str]) -> int | None:
        """Forget entries by their places; how many went."""

    def drop(self, name: str) -> bool | None:
        """Forget all entries. False: there were none."""


class WorkingMemory:
    """Drafts of one execution each, in a store that forgets them `keep` after the last one came. Thread-safe.

    Nothing here is durable until it is promoted. Every method sees one tenant's executions only and raises
    Unavailable when the store is out of reach: what was to be added may then be there or not.
    """

    def __init__(
        self,
        scratch: Scratch | None,
        writer: Writer,
        new_id: Callable[[], str],
        now: Callable[[], datetime],
        keep: timedelta,
        most: int,
    ) -> None:
        if not 1 <= most <= PIECE:
            raise Refused(f"a working memory holds 1 to {PIECE} entries", where="most")
        self._scratch = scratch
        self._writer = writer
        self._new_id = new_id
        self._now = now
        self._keep = keep
        self._most = most

    def append(self, tenant: str, execution: str, drafts: Sequence[Draft]) -> list[str]:
        """Add drafts to what an execution remembers; the ids they will have once promoted.

        A draft without an id, session or time is given one: the session is the execution. Raises Refused as a
        write would, and for sensitive ones, and Conflict when the working memory is full: trim or promote it.
        """
        name = _name(tenant, execution)
        if not 1 <= len(drafts) <= MOST_AT_ONCE:
            raise Refused(f"1 to {MOST_AT_ONCE} drafts at a time", where="drafts")
        admitted = [self._completed(admit(tenant, draft).draft, execution) for draft in drafts]
        if any(draft.sensitive for draft in admitted):
            raise Refused("what is sensitive is kept sealed, in the record alone: write it there", where="sensitive")
        added = _known(self._store().append(name, [_packed(one) for one in admitted], self._keep, self._most))
        if not added:
            raise Conflict(f"this working memory has no room: it holds {self._most} entries at the most")
        return [str(draft.id) for draft in admitted]

    def read(self, tenant: str, execution: str, last: int | None = None) -> list[Draft]:
        """What an execution remembers, oldest first; the `last` ones only. One that has ended remembers nothing."""
        if last is not None and last < 1:
            raise Refused("ask for at least one", where="last")
        found = _known(self._store().read(_name(tenant, execution), last))
        return list({draft.id: draft for draft in (_unpacked(value) for _, value in found)}.values())

    def trim(self, tenant: str, execution: str, last: int) -> int:
        """Forget all but the `last` entries; how many went."""
        if last < 0:
            raise Refused("nothing less than none can be kept", where="last")
        return _known(self._store().trim(_name(tenant, execution), last))

    def forget(self, tenant: str, execution: str) -> bool:
        """Forget all of an execution. False: there was nothing."""
        return _known(self._store().drop(_name(tenant, execution)))

    def promote(
        self, tenant: str, execution: str, chosen: Callable[[Draft], bool] = lambda _: True
    ) -> Sequence[Written]:
        """Make what an execution remembers (or the `chosen` part) durable, in one transaction: all of it or nothing.

        What was promoted leaves the working memory afterwards; what is added meanwhile stays. It may be repeated:
        an id the record already knows, one deleted since included, is left as it is. See `Writer.write_together`.
        """
        name, store = _name(tenant, execution), self._store()
        taken = [(place, _unpacked(value)) for place, value in _known(store.read(name))]
        taken = [(place, draft) for place, draft in taken if chosen(draft)]
        if not taken:
            return []
        written = self._writer.write_together(tenant, [draft for _, draft in taken])
        # Lost now, it is only promoted once more, which changes nothing.
        store.remove(name, [place for place, _ in taken])
        return written

    def _completed(self, draft: Draft, execution: str) -> Draft:
        return replace(
            draft,
            id=draft.id or self._new_id(),
            session=draft.session or execution,
            created_at=draft.created_at or self._now(),
        )

    def _store(self) -> Scratch:
        if self._scratch is None:
            raise Unavailable("there is no working memory without a cache")
        return self._scratch


def _name(tenant: str, execution: str) -> str:
    """Under which name an execution's entries stand: the length keeps two tenants' names from meeting."""
    admit_tenant(tenant)
    return f"{len(tenant)}:{tenant}:{rules.identifier(execution, 'execution', Cleaner())}"


def _known(answer: T | None) -> T:
    if answer is None:
        raise Unavailable("the working memory is out of reach")
    return answer


def _packed(draft: Draft) -> bytes:
    values = asdict(draft)
    for name in ("created_at", "expires_at"):
        values[name] = values[name] and values[name].isoformat()
    return json.dumps({name: value for name, value in values.items() if value is not None}).encode()


def _unpacked(value: bytes) -> Draft:
    return draft_of(json.loads(value))
