"""What the graph adds to scores: records that speak of the same entities as the best hits.

As with conversations, everything is added to what was there, so that a record no hit leads to keeps its score.
"""

from __future__ import annotations

from dataclasses import replace

from core.model.query import Filters, Parts
from core.model.ranking import Ranking
from core.read.conversation import Ranked
from core.record.candidates import around, candidates
from core.record.database import Session

# How many of the best hits lend, and to how many records at the most; see graph_around.sql for the others.
LENDERS = 10
BOUNDS = {"names": 24, "most": 64, "limit": 50}


def with_graph(session: Session, tenant: str, hits: Ranked, filters: Filters, ranking: Ranking) -> Ranked:
    """The hits, and what else speaks of what the best of them speak of, with what these lend."""
    best = sorted(hits.parts, key=lambda point: (-hits.parts[point].total, point))[:LENDERS]
    lenders = {hits.known[point].id: hits.parts[point].total for point in best}
    shares = around(session, tenant, lenders, BOUNDS)
    if not shares:
        return hits
    entered = candidates(session, tenant, [point for point in shares if point not in hits.parts], filters)
    known = {**hits.known, **entered}
    parts = dict(hits.parts)
    for point, share in shares.items():
        if point in known:
            parts[point] = replace(parts.get(point, Parts()), graph=ranking.graph * share)
    return Ranked(known, parts, hits.limit)
