"""Aliases on a Qdrant server: compare and set, made by the server itself.

The server has no such request. It applies the actions of one request one after another under a lock, and
refuses to rename an alias that is not there; it does not undo what it did before an action failed. So
each alias has a marker beside it, a second alias called `{alias}@{mark}`, and a swap is one request: give
the marker another mark, point it at the new collection, point the alias there. Of two swappers one finds
no marker to rename. A mark is used once, so that a request that stalls is refused also when the alias was
swapped meanwhile and rolled back. The alias is never deleted, so that at no moment it names nothing; a
server that dies between two actions leaves the alias where it was, with a marker that has gone ahead, and
the next swap takes up that marker.

What no request can compare is that an alias is *not* there. Of two who point an alias for the first time
at once, the later one's collection stays, and both may be told that they won: the record's one intent a
tenant is the lock for that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from core.errors import Conflict, NotFound

_AT = "@"  # in no name of ours: they are encoded
_MARK = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Rename:
    """Give an alias another name. The server refuses with "not found" when it is not there."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Assign:
    """Make an alias name a collection, whatever it named before."""

    alias: str
    collection: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Take an alias away; not there: nothing."""

    alias: str


Action = Rename | Assign | Remove


class MarkedAliases:
    """The protocol over three calls: all aliases, all collections, and one request of several actions.

    `new_mark` gives 32 hexadecimal digits that were never given before.
    """

    def __init__(
        self,
        listed: Callable[[], Mapping[str, str]],
        collections: Callable[[], frozenset[str]],
        change: Callable[[Sequence[Action]], None],
        new_mark: Callable[[], str],
    ) -> None:
        self._listed = listed
        self._collections = collections
        self._change = change
        self._new_mark = new_mark

    def point(self, alias: str, collection: str, expected: str | None) -> None:
        """Point `alias` at `collection` if it names `expected` now. Raises NotFound, Conflict."""
        existing = self._collections()
        if collection not in existing:
            raise NotFound(f"there is no collection {collection}")
        if alias in existing:
            raise Conflict(f"{alias} is the name of a collection")
        named = self._listed()
        current = named.get(alias)
        if current == collection:
            return
        if current != expected:
            raise _moved(alias, current)
        if current is not None and not _marks(named, alias):
            named = self._adopt(alias, current)
        refused = False
        try:
            self._change(swap(alias, collection, _marks(named, alias), self._new_mark()))
        except NotFound:
            refused = True
        self._look_again(alias, collection, refused)

    def naming(self, collection: str) -> list[str]:
        """The aliases that name a collection, anybody's, without the markers of this protocol."""
        return sorted(
            alias for alias, target in self._listed().items() if target == collection and not _is_marker(alias)
        )

    def _adopt(self, alias: str, current: str) -> Mapping[str, str]:
        """Give an alias made by another hand its marker; who finds anything else afterwards lost a race."""
        mark = self._new_mark()
        self._change([Assign(marker(alias, mark), current)])
        named = self._listed()
        if named.get(alias) != current or _marks(named, alias) != [mark]:
            raise _moved(alias, named.get(alias))
        return named

    def _look_again(self, alias: str, collection: str, refused: bool) -> None:
        current = self._listed().get(alias)
        if current == collection:
            return
        if refused and collection not in self._collections():
            raise NotFound(f"there is no collection {collection}")
        raise _moved(alias, current)


def marker(alias: str, mark: str) -> str:
    """Name of the marker beside an alias."""
    return f"{alias}{_AT}{mark}"


def swap(alias: str, collection: str, marks: Sequence[str], fresh: str) -> list[Action]:
    """The actions of one request that move an alias which has these marks; more than one: a race left the others."""
    compare = [Rename(marker(alias, mark), marker(alias, fresh)) for mark in marks[:1]]
    strays = [Remove(marker(alias, mark)) for mark in marks[1:]]
    return [*compare, Assign(marker(alias, fresh), collection), Assign(alias, collection), *strays]


def _marks(named: Mapping[str, str], alias: str) -> list[str]:
    prefix = f"{alias}{_AT}"
    found = (name.removeprefix(prefix) for name in named if name.startswith(prefix))
    return sorted(mark for mark in found if _MARK.fullmatch(mark))


def _is_marker(name: str) -> bool:
    return _MARK.fullmatch(name.rpartition(_AT)[2]) is not None and _AT in name


def _moved(alias: str, current: str | None) -> Conflict:
    return Conflict(f"alias {alias} names {current or 'nothing'} now", current=current)
