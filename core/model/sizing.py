"""How large an installation has to be, and how long its chores take: arithmetic over what was measured.

Pure: the same wish and the same measurements give the same lines. Every figure comes with the sum that gave it, and
none falls when there are more records.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import Misconfigured, Refused

FILE = Path(__file__).with_name("measured.toml")
LEAST_PARTITIONS = 8
VECTOR_BYTES = {"none": 4.0, "scalar": 1.0, "binary": 0.125}
MEASURED_WIDTH = 256
FOR_POINTS = 0.75
MOST = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be kept, and what works on it.

    `archived` and `hot` are shares of the records. `seconds_a_request` None: the bundled model embeds. `changes`: how
    often a record is written anew while events of it are kept.
    """

    records: float
    tenants: float
    text_bytes: float = 400
    tokens: float = 100
    dimensions: int = 256
    archived: float = 0.0
    hot: float = 0.02
    changes: float = 1.0
    quantization: str = "none"
    on_disk: bool = False
    workers: int = 4
    nodes: int = 0
    seconds_a_request: float | None = None
    tokens_a_minute: float | None = None
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement: its value, and how it was come by."""

    value: float
    how: str


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of the plan: of which part, what, how much, in which unit, and by which sum."""

    part: str
    what: str
    value: float
    unit: str
    sum: str


Measurements = Mapping[str, Measured]


def measurements(file: Path = FILE) -> Measurements:
    """The measurements a file holds. Raises Misconfigured for one that cannot be read."""
    try:
        found: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
        return {name: Measured(float(one["value"]), str(one["how"])) for name, one in found.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Misconfigured(f"the measurements in {file.name} cannot be read") from error


def plan(wish: Wish, known: Measurements) -> list[Line]:
    """Every figure, store by store, then the chores. Raises Refused for a wish that makes no sense."""
    _sensible(wish)
    return [
        *_record(wish, known),
        *_index(wish, known),
        *_cache(wish, known),
        *_objects(wish, known),
        *_chores(wish, known),
    ]


def _sensible(wish: Wish) -> None:
    bounds = {
        "records": (0, MOST),
        "tenants": (1, MOST),
        "text_bytes": (1, 10_000_000),
        "tokens": (1, 10_000_000),
        "dimensions": (1, 65_536),
        "archived": (0, 1),
        "hot": (0, 1),
        "changes": (0, 1_000_000),
        "workers": (1, 100_000),
        "nodes": (0, 100_000),
    }
    for name, (low, high) in bounds.items():
        if not low <= getattr(wish, name) <= high:
            raise Refused(f"{name} is within {low:g}..{high:g}", where=name)
    if wish.quantization not in VECTOR_BYTES:
        raise Refused(f"quantization is one of {', '.join(VECTOR_BYTES)}", where="quantization")


def _record(wish: Wish, known: Measurements) -> Iterator[Line]:
    rows, longer = wish.records, _longer(wish, known)
    wanted = math.ceil(rows / known["partition_rows"].value)
    parts = max(LEAST_PARTITIONS, 2 ** math.ceil(math.log2(max(1, wanted))))
    of_rows = f"{rows:,.0f} rows / {known['partition_rows'].value:,.0f}"
    yield Line(
        "PostgreSQL", "partitions of each table", parts, "", f"{of_rows}, a power of two, {LEAST_PARTITIONS} made"
    )
    whole, gone = rows * (1 - wish.archived), rows * wish.archived
    row, text = known["row_bytes"].value, max(0.0, wish.text_bytes - known["text_bytes"].value)
    memory = whole * (row + text) + gone * row
    yield Line(
        "PostgreSQL", "disk of records", memory, "B", f"{whole:,.0f} x ({row:g} + {text:g} B) + {gone:,.0f} x {row:g}"
    )
    postings = known["postings_bytes"].value * longer
    yield Line("PostgreSQL", "disk of keywords", rows * postings, "B", f"{rows:,.0f} x {postings:,.0f} B")
    event = known["event_bytes"].value
    events = rows * wish.changes
    yield Line("PostgreSQL", "disk of events", events * event, "B", f"{events:,.0f} x {event:g} B, while they are kept")
    outbox = known["outbox_bytes"].value
    yield Line(
        "PostgreSQL", "disk of the outbox", rows * outbox, "B", f"{rows:,.0f} x {outbox:g} B, in a reindex of all"
    )


def _index(wish: Wish, known: Measurements) -> Iterator[Line]:
    points, width = _points(wish), wish.dimensions
    (held, linked), payload, graph = _in_memory(wish, known), known["payload_bytes"].value, known["graph_bytes"].value
    in_memory = points * (held + linked)
    kind = "on disk, " if wish.on_disk else ""
    yield Line("Qdrant", "points", points, "", f"{wish.records:,.0f} records, {wish.archived:.0%} archived")
    yield Line(
        "Qdrant", "memory of vectors", in_memory, "B", f"{kind}{points:,.0f} x ({held:,.0f} + {linked:g} B of graph)"
    )
    each = known["collection_bytes"].value
    small = wish.tenants * each
    yield Line("Qdrant", "memory of collections", small, "B", f"{wish.tenants:,.0f} tenants x {each:,.0f} B")
    disk = points * (4 * width + payload + graph)
    yield Line("Qdrant", "disk", disk, "B", f"{points:,.0f} x (4 x {width} + {payload:g} + {graph:g} B)")
    yield Line("Qdrant", "disk in a reindex", 2 * disk, "B", "both indexes are kept until the grace is over")
    yield Line(
        "Qdrant",
        "nodes",
        _nodes(wish, known),
        "",
        f"2 x ({in_memory:,.0f} + {small:,.0f} B) / {FOR_POINTS:.0%} of a node",
    )
    a_tenant = math.ceil(points / wish.tenants / known["shard_points"].value)
    shards = max(1, a_tenant)
    most = known["shard_points"].value
    yield Line("Qdrant", "shards of a mean tenant", shards, "", f"{points / wish.tenants:,.0f} points / {most:,.0f}")


def _cache(wish: Wish, known: Measurements) -> Iterator[Line]:
    hot, each = wish.records * wish.hot, max(known["hot_bytes"].value, known["hot_bytes"].value + wish.text_bytes - 150)
    yield Line("Redis", "memory", hot * each, "B", f"{wish.hot:.1%} of {wish.records:,.0f} x {each:,.0f} B")


def _objects(wish: Wish, known: Measurements) -> Iterator[Line]:
    gone, each = wish.records * wish.archived, known["archive_bytes"].value * _longer(wish, known)
    yield Line("Objects", "archived", gone, "", f"{wish.archived:.0%} of {wish.records:,.0f}")
    yield Line("Objects", "bytes of the archive", gone * each, "B", f"{gone:,.0f} x {each:,.0f} B")
    points, vector = _points(wish), 4 * wish.dimensions * known["snapshot_overhead"].value
    yield Line(
        "Objects",
        "bytes of snapshots",
        2 * points * vector,
        "B",
        f"2 x {points:,.0f} x {vector:,.0f} B, the one before too",
    )


def _chores(wish: Wish, known: Measurements) -> Iterator[Line]:
    points, full, wider = _points(wish), _fullest(wish, known), max(1.0, wish.dimensions / MEASURED_WIDTH)
    write = known["write_rate"].value
    yield Line(
        "Time", "import", wish.records / write, "s", f"{wish.records:,.0f} / {write:,.0f} a second, one PostgreSQL"
    )
    (model, said), upsert = _model_rate(wish, known), known["upsert_rate"].value / wider
    embed = max(points / model, full / upsert)
    stored = f"{full:,.0f} points of the fullest node / {upsert:,.0f} a second"
    yield Line("Time", "embed", embed, "s", f"the longer of {points:,.0f} / ({said}) and {stored}")
    graph = known["graph_rate"].value / wider
    yield Line("Time", "reindex", embed + full / graph, "s", f"embed, and {full:,.0f} / {graph:,.0f} linked a second")
    scroll = known["scroll_rate"].value
    yield Line(
        "Time", "reconcile, all of it", full / scroll, "s", f"{full:,.0f} / {scroll:,.0f} a second, nodes at once"
    )
    gone, objects = wish.records * wish.archived, known["object_rate"].value * wish.workers
    yield Line(
        "Time",
        "archive",
        gone / objects,
        "s",
        f"{gone:,.0f} / ({wish.workers} workers x {objects / wish.workers:,.0f})",
    )
    tokens = points * wish.tokens
    yield Line("Cost", "tokens of an embed or a reindex", tokens, "", f"{points:,.0f} x {wish.tokens:g} tokens")
    if wish.price is not None:
        money = tokens * wish.price / 1e6
        yield Line(
            "Cost", "of an embed or a reindex", money, "USD", f"{tokens:,.0f} tokens x {wish.price:g} USD a million"
        )


def _model_rate(wish: Wish, known: Measurements) -> tuple[float, str]:
    """Records a second all workers get from the model, and the sum."""
    if wish.seconds_a_request is None:
        one = known["embed_rate"].value
        rate, said = wish.workers * one, f"{wish.workers} workers x {one:,.0f}"
    else:
        texts = max(1, math.floor(min(known["provider_texts"].value, known["provider_tokens"].value / wish.tokens)))
        rate = wish.workers * texts / wish.seconds_a_request
        said = f"{wish.workers} workers x {texts:,} texts in {wish.seconds_a_request:g} s"
    if wish.tokens_a_minute is not None:
        allowed = wish.tokens_a_minute / 60 / wish.tokens
        if allowed < rate:
            return allowed, f"{wish.tokens_a_minute:,.0f} tokens a minute / {wish.tokens:g}"
    return rate, said


def _points(wish: Wish) -> float:
    return wish.records * (1 - wish.archived)


def _longer(wish: Wish, known: Measurements) -> float:
    return max(1.0, wish.text_bytes / known["text_bytes"].value)


def _in_memory(wish: Wish, known: Measurements) -> tuple[float, float]:
    """Bytes of memory a point takes: of its vector, and of the graph."""
    if wish.on_disk:
        return (0.0 if wish.quantization == "none" else wish.dimensions * VECTOR_BYTES[wish.quantization]), 0.0
    return wish.dimensions * VECTOR_BYTES[wish.quantization], known["graph_bytes"].value


def _nodes(wish: Wish, known: Measurements) -> int:
    """Qdrant nodes that were given, or as many as hold all indexes twice: in a reindex there are two."""
    if wish.nodes:
        return wish.nodes
    needed = 2 * (_points(wish) * sum(_in_memory(wish, known)) + wish.tenants * known["collection_bytes"].value)
    return max(1, math.ceil(needed / (known["node_bytes"].value * FOR_POINTS)))


def _fullest(wish: Wish, known: Measurements) -> float:
    """Points of the node that holds most: an even share of the nodes given, or what a node has room for."""
    points, each = _points(wish), 2 * sum(_in_memory(wish, known))
    if wish.nodes:
        return points / wish.nodes
    return min(points, known["node_bytes"].value * FOR_POINTS / each) if each else points
