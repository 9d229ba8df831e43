"""The keyword leg in the record: terms put beside the memories they are of, and asked by BM25.

Terms are put in the transaction that writes the memory. How often a term stands where is counted when it is
asked, from the same index entries, so that no writer waits for another over a common word.
"""

from __future__ import annotations

import hashlib
import math
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from psycopg.types.json import Jsonb

from core.model.memory import Draft, Memory, Sealed
from core.model.query import Filters
from core.model.terms import TERMS_EDITION, Terms, known_language, terms_of
from core.record.database import Session
from core.record.queries import query

# Okapi BM25: how soon a term's repetition stops to count, and how much a text's length does. Chosen by
# measurement on conversations (`make bench-quality`); for whole documents 1.2 and 0.75 are usual.
K1 = 0.9
B = 0.4
MOST_TERMS = 48  # of a query; of a longer one the rarest are asked
NARROW = 0.2  # a filter that lets no greater part of the memories through drives the query
# By what part a tenant's memories may have grown or shrunk before frequencies are counted again.
STALE = 0.02
_MOST_OFTEN = 32_767


@dataclass(frozen=True, slots=True)
class Totals:
    """What a tenant's terms were counted over."""

    memories: int
    length: int
    threads: int
    threaded_length: int


@dataclass(frozen=True, slots=True)
class Frequency:
    """In how many memories, and in how many threads, a term stands."""

    memories: int
    threads: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Terms of a query that something holds, with what each is worth in a memory (and in a thread): idf · weight."""

    terms: Sequence[str]
    weights: Sequence[float]
    thread_weights: Sequence[float]
    counted: Totals


def put_terms(session: Session, tenant: str, memories: Mapping[uuid.UUID, Draft | Memory]) -> None:
    """Make memories found by their words, and by no words they no longer have. Sealed ones have none."""
    if sealed := [point for point, memory in memories.items() if isinstance(memory, Sealed)]:
        session.execute(query("keyword_drop"), {"tenant": tenant, "points": sealed})
        memories = {point: memory for point, memory in memories.items() if point not in set(sealed)}
    if not memories:
        return
    sizes: list[int] = []
    owners: list[int] = []
    terms: list[str] = []
    counts: list[int] = []
    for owner, memory in enumerate(memories.values(), start=1):
        made = terms_of_memory(memory)
        sizes.append(made.length)
        owners += [owner] * len(made.counts)
        terms += made.counts
        counts += [min(count, _MOST_OFTEN) for count in made.counts.values()]
    values = {
        "tenant": tenant,
        "points": list(memories),
        "sizes": sizes,
        "edition": TERMS_EDITION,
        "owners": _literal(map(str, owners)),
        "terms": _literal(terms),
        "counts": _literal(map(str, counts)),
    }
    session.execute(query("keyword_put"), values)


def terms_of_memory(memory: Draft | Memory) -> Terms:
    """What a memory is found by: its title, content and tags, in the language of its label `lang` if it has one.

    Beside them stand the terms of what it is filtered by and few may share: no query has those.
    """
    text = "\n".join(filter(None, (memory.title, memory.content, *memory.tags)))
    made = terms_of(text, known_language(memory.labels.get("lang")))
    kinds = [("tag", tag) for tag in memory.tags] + [("label", *pair) for pair in memory.labels.items()]
    kinds += [("project", memory.project)] if memory.project else []
    kinds += [("agent", memory.agent)] if memory.agent else []
    return Terms({**made.counts, **dict.fromkeys((filter_term(*kind) for kind in kinds), 1)}, made.length)


def filter_term(*kind: str) -> str:
    """The term of one thing filtered by. It begins with `#`, as no word does, and is the same for the same thing."""
    said = "".join(f"{len(part)}:{part}" for part in kind)
    return f"#{hashlib.blake2b(said.encode(), digest_size=10).hexdigest()}"


def filter_terms(filters: Filters) -> list[list[str]]:
    """What a filter asks, as groups of filter terms: a memory that meets it has one term of each group."""
    groups = [[filter_term("tag", tag)] for tag in filters.tags_all]
    groups += [[filter_term("tag", tag) for tag in filters.tags_any]] if filters.tags_any else []
    groups += [[filter_term("label", *pair)] for pair in filters.labels.items()]
    groups += [[filter_term("project", filters.project)]] if filters.project else []
    groups += [[filter_term("agent", filters.agent)]] if filters.agent else []
    return groups


def totals(session: Session, tenant: str) -> Totals:
    """What the terms of a tenant were counted over."""
    row = session.execute(query("keyword_totals"), {"tenant": tenant}).fetchone()
    return Totals(0, 0, 0, 0) if row is None else Totals(**row)


def frequencies(session: Session, tenant: str, terms: Sequence[str]) -> dict[str, Frequency]:
    """How often terms stand, for those that stand anywhere."""
    rows = session.execute(query("keyword_frequencies"), {"tenant": tenant, "terms": list(terms)}).fetchall()
    return {row["term"]: Frequency(int(row["memories"]), int(row["threads"])) for row in rows}


def weighted(asked: Mapping[str, float], known: Mapping[str, Frequency], counted: Totals) -> Asked:
    """The terms of a query that stand anywhere, at most MOST_TERMS, each worth its weight times its rarity."""
    worth = {
        term: weight * _rarity(known[term].memories, counted.memories)
        for term, weight in asked.items()
        if term in known
    }
    chosen = sorted(worth, key=lambda term: (-worth[term], term))[:MOST_TERMS]
    return Asked(
        terms=chosen,
        weights=[(K1 + 1) * worth[term] for term in chosen],
        thread_weights=[(K1 + 1) * asked[term] * _rarity(known[term].threads, counted.threads) for term in chosen],
        counted=counted,
    )


class Frequencies:
    """How often terms stand, remembered while a tenant's memories hardly grow or shrink. Thread-safe.

    That a term stands nowhere is never remembered: the next write may bring it.
    """

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[int, Frequency]] = {}

    def weighted(self, session: Session, tenant: str, terms: Mapping[str, float]) -> Asked:
        """The terms of a query as `weighted` makes them, of frequencies that are right or nearly so."""
        counted = totals(session, tenant)
        with self._lock:
            known = {
                term: entry[1]
                for term in terms
                if (entry := self._known.get((tenant, term))) is not None
                and abs(entry[0] - counted.memories) <= STALE * counted.memories
            }
        if missing := [term for term in terms if term not in known]:
            found = frequencies(session, tenant, missing)
            known |= found
            with self._lock:
                if len(self._known) + len(found) > self._most:
                    self._known.clear()
                self._known.update({(tenant, term): (counted.memories, one) for term, one in found.items()})
        return weighted(terms, known, counted)


def search_terms(
    session: Session,
    tenant: str,
    asked: Asked,
    filters: Filters,
    limit: int,
    begins: Callable[[], None] = lambda: None,
) -> dict[uuid.UUID, float]:
    """The `limit` best memories by BM25 that are alive and meet the filters, best first, with their scores.

    `begins` is called when the database is given the long query.
    """
    if not asked.terms:
        return {}
    counted = asked.counted
    among = None if filters.session else _narrowest(session, tenant, filters, counted)
    values = {
        "tenant": tenant,
        "terms": list(asked.terms),
        "weights": list(asked.weights),
        "k1": K1,
        "rest": 1 - B,
        "slope": B * counted.memories / max(1, counted.length),
        "among": among,
        "limit": limit,
        **filter_values(filters),
    }
    # Almost all memories are alive: a few more than asked for are enough, unless a filter lets few through.
    reach = None if among or filters.session else 50 + limit * (2 if filters == Filters() else 10)
    begins()
    rows = session.execute(query("keyword_search"), {**values, "reach": reach}).fetchall()
    if reach is not None and len(rows) < limit:
        rows = session.execute(query("keyword_search"), {**values, "reach": None}).fetchall()
    return {row["point"]: float(row["score"]) for row in rows}


def _narrowest(session: Session, tenant: str, filters: Filters, counted: Totals) -> list[str] | None:
    """Of what a filter asks, the part that fewest memories meet, if they are few; None: none is narrow."""
    groups = filter_terms(filters)
    if not groups:
        return None
    known = frequencies(session, tenant, [term for group in groups for term in group])
    sizes = [sum(known[term].memories for term in group if term in known) for group in groups]
    smallest = min(range(len(groups)), key=sizes.__getitem__)
    return groups[smallest] if sizes[smallest] <= NARROW * counted.memories else None


def filter_values(filters: Filters) -> dict[str, object]:
    """Filters as the parameters of a query; None asks for nothing."""
    named = dict.fromkeys(("scope", "project", "agent", "session", "role", "type", "tier"))
    return {
        **named,
        **filters.equalities,
        "tier": filters.tier,
        "tags_any": list(filters.tags_any) or None,
        "tags_all": list(filters.tags_all) or None,
        "labels": Jsonb(dict(filters.labels)) if filters.labels else None,
        "min_importance": filters.min_importance,
        "created_from": filters.created_from,
        "created_to": filters.created_to,
    }


def _literal(parts: Iterable[str]) -> str:
    """An array as PostgreSQL writes it, much faster than an adapted list. No term holds a quote or a backslash."""
    joined = '","'.join(parts)
    return f'{{"{joined}"}}' if joined else "{}"


def _rarity(holding: int, of: int) -> float:
    """The idf of BM25, never below zero. Counts of one moment may be a little ahead of each other."""
    holding = min(holding, of)
    return math.log(1 + (of - holding + 0.5) / (holding + 0.5))
