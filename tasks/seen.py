"""What a person sees of a run in the UI: its name and tags, how far it is, and a table at its end.

All of it is for looking at: what cannot be shown is logged and fails nothing. No content of memories is in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from uuid import UUID

from prefect import runtime
from prefect.artifacts import (
    create_link_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.logging import get_run_logger

# How many tenants a name spells out, and how many become tags.
NAMED = 3
TAGGED = 20
# A look at the progress costs a request: not more often than this.
SHOWN_EVERY = 2.0
REASON_CHARACTERS = 160
LINK_KEY = "data-docs"
# Where a report says how to go on.
CURSORS = frozenset({"next", "cursor"})

Table = Sequence[Mapping[str, str | int | float]]


def named(chore: str) -> Callable[[], str]:
    """What a run is called from its parameters alone, until `mark_run` knows more."""

    def name() -> str:
        return f"{chore}: {whose(runtime.flow_run.parameters.get('tenants'))}"

    return name


def whose(tenants: Sequence[str] | None) -> str:
    """A few tenants by their names, many by their number."""
    if tenants is None:
        return "all tenants"
    return ", ".join(tenants) if 0 < len(tenants) <= NAMED else f"{len(tenants)} tenants"


def mark_run(chore: str, tenants: Iterable[str], size: str = "") -> None:
    """Name this run by chore, tenants and size, now that they are known, and tag it with them."""
    found = list(dict.fromkeys(tenants))
    name = ", ".join(filter(None, (f"{chore}: {whose(found)}", size)))
    tags = {*runtime.flow_run.tags, f"chore:{chore.partition(' ')[0]}", *(f"tenant:{one}" for one in found[:TAGGED])}
    run = runtime.flow_run.id
    if run is None:
        return
    with _only_shown("name and tags"), get_client(sync_client=True) as client:
        client.update_flow_run(UUID(run), name=name, tags=sorted(tags))


def show_table(key: str, rows: Table, note: str | None = None) -> None:
    """A table at the end of a run; nothing for no rows. Keys are lower case, digits, dashes."""
    if rows:
        with _only_shown(key):
            create_table_artifact(key=key, table=[dict(row) for row in rows], description=note)


def show_docs(docs: str) -> None:
    """A link to the pages of the quality gates, by the path of their first one."""
    with _only_shown("data docs"):
        create_link_artifact(key=LINK_KEY, link=Path(docs).as_uri(), link_text="data docs of the last run")


def place_of(store: str, generation: int | None) -> str:
    """What is looked at, in a table: the store, and the number of an index."""
    return f"{store} {generation or ''}".rstrip()


def row_of(report: object) -> dict[str, str | int | float]:
    """A report's figures as a row: numbers and words as they are, what failed by its reasons, lists by their lengths.

    Where to go on, and whatever else has no place in a cell, is left out.
    """
    found: dict[str, str | int | float] = {}
    for field in fields(report):  # type: ignore[arg-type]
        value = getattr(report, field.name)
        name = field.name.replace("_", " ")
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            found[name] = value
        elif isinstance(value, tuple | list):
            found[name] = len(value)
        elif isinstance(value, Mapping) and all(isinstance(one, str) for one in value.values()):
            found[name] = reasons_of(value.values())
        elif is_dataclass(value) and field.name not in CURSORS:
            found |= row_of(value)
        elif value is None and field.name not in CURSORS:
            found[name] = ""
    return found


def reasons_of(aside: Iterable[str]) -> str:
    """Why entries were set aside, each reason once with how often."""
    counted = Counter(reason[:REASON_CHARACTERS] for reason in aside)
    return "; ".join(f"{count} × {reason}" for reason, count in counted.most_common(5))


def key_of(*words: str) -> str:
    """A key of an artifact: lower case, digits, dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-") or "none"


class Progress:
    """How far a run is: per cent, rate and time left, as one artifact that is brought up to date."""

    def __init__(self, key: str, what: str, clock: Callable[[], float]) -> None:
        self._key = key_of(key)
        self._what = what
        self._clock = clock
        self._began = clock()
        self._first: int | None = None
        self._shown_at = float("-inf")
        self._artifact: UUID | None = None

    def show(self, done: int, total: int) -> None:
        """So much of so much is done. Shown at most every other second, and always at the end."""
        now = self._clock()
        if self._first is None:
            self._first = done  # what was done before this run says nothing of its rate
        over = done >= total
        if total <= 0 or (now - self._shown_at < SHOWN_EVERY and not (over and self._artifact is not None)):
            return
        self._shown_at = now
        per_cent = min(100.0, 100 * done / total)
        told = said_of(self._what, done, total, (done - self._first) / max(now - self._began, 0.001))
        with _only_shown("progress"):
            if self._artifact is None:
                made = create_progress_artifact(per_cent, key=self._key, description=told)
                self._artifact = made if isinstance(made, UUID) else None
            else:
                update_progress_artifact(self._artifact, per_cent, description=told)


def said_of(what: str, done: int, total: int, rate: float) -> str:
    """Progress in words."""
    told = [f"{what}: {done:,} of {total:,} ({min(100, 100 * done // total)} %)"]
    if rate > 0:
        told.append(f"{rate:,.0f} a second")
        if done < total:
            told.append(f"about {_span((total - done) / rate)} left")
    return ", ".join(told)


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def _only_shown(what: str) -> Iterator[None]:
    """Around what is for people alone."""
    try:
        yield
    except Exception as problem:  # noqa: BLE001  a picture that cannot be drawn fails no work
        get_run_logger().warning("%s cannot be shown: %s", what, type(problem).__name__)
