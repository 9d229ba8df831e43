"""What goes to a Qdrant server in one request: each point once, in batches bounded by count and bytes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence

from core.errors import Refused
from core.model.point import Payload, Point

_NUMBER_BYTES = 25  # the longest float32 as the JSON number of a float64, and its comma
_FRAME_BYTES = 400  # id, names, and the guard that may stand beside a single point


def newest(points: Sequence[Point]) -> list[int]:
    """Where each point stands, once: the newest of those with one id, the last of those with one version."""
    kept: dict[uuid.UUID, int] = {}
    for place, point in enumerate(points):
        old = kept.get(point.payload.embedding_id)
        if old is None or points[old].payload.stamp.version <= point.payload.stamp.version:
            kept[point.payload.embedding_id] = place
    return list(kept.values())


def sent_bytes(payload: Payload, width: int = 0) -> int:
    """At most how many bytes a payload and a vector of this width take in a request.

    Raises Refused for a payload the server cannot hold: NaN would be stored as null, without a word.
    """
    try:
        text = json.dumps(payload.fields, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError):
        raise Refused(f"the index cannot take the payload of {payload.embedding_id}", where="payload") from None
    return len(text) + row_bytes(width)


def row_bytes(width: int) -> int:
    """At most how many bytes a point of this width takes without its payload."""
    return width * _NUMBER_BYTES + _FRAME_BYTES


def parts(sizes: Sequence[int], most_items: int, most_bytes: int) -> Iterator[slice]:
    """Slices of neighbours that stay within both bounds; what is too big alone goes alone."""
    start, filled = 0, 0
    for position, size in enumerate(sizes):
        if position > start and (position - start >= most_items or filled + size > most_bytes):
            yield slice(start, position)
            start, filled = position, 0
        filled += size
    if sizes:
        yield slice(start, len(sizes))
