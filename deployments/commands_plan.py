"""The command that reckons how large an installation has to be."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from core.assembly.models import price_of
from core.errors import Refused
from core.model.sizing import FILE, Line, Measurements, Wish, measurements, plan
from deployments import options
from deployments.output import say, show_json, show_table

Records = Annotated[float, typer.Option(min=0, help="Records in all; 1e9 is as good as 1000000000.")]
Tenants = Annotated[float, typer.Option(min=1, help="Tenants they belong to.")]
TextBytes = Annotated[float, typer.Option(min=1, help="Bytes of a text, on average.")]
Tokens = Annotated[float, typer.Option(min=1, help="Tokens of a text, on average.")]
Dimensions = Annotated[int, typer.Option(min=1, help="Width of the vectors.")]
Archived = Annotated[float, typer.Option(min=0, max=1, help="Share of the records that is archived.")]
Hot = Annotated[float, typer.Option(min=0, max=1, help="Share of the records that Redis holds.")]
Quantization = Annotated[Literal["none", "scalar", "binary"], typer.Option(help="Of vectors in memory.")]
OnDisk = Annotated[bool, typer.Option("--on-disk", help="Vectors and graph on disk.")]
Workers = Annotated[int, typer.Option(min=1, help="Worker processes.")]
Nodes = Annotated[int, typer.Option(min=0, help="Qdrant nodes; 0: as many as it takes.")]
Request = Annotated[float | None, typer.Option(min=0.001, help="Seconds a provider's request takes; none: bundled.")]
Minute = Annotated[float | None, typer.Option(min=1, help="Tokens a minute the provider allows.")]
Model = Annotated[str | None, typer.Option(metavar="PROVIDER/MODEL", help="Whose list price is reckoned with.")]
From = Annotated[Path, typer.Option("--measured", metavar="FILE", help="Measurements of your own.", dir_okay=False)]
COLUMNS = ["part", "what", "figure", "sum"]
UNITS = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
TIMES = (("days", 86_400.0), ("h", 3600.0), ("min", 60.0))


def plan_size(  # noqa: PLR0913, PLR0917  each is an option of the command
    records: Records,
    tenants: Tenants = 1,
    text_bytes: TextBytes = 400,
    tokens: Tokens = 100,
    dimensions: Dimensions = 256,
    archived: Archived = 0.0,
    hot: Hot = 0.02,
    quantization: Quantization = "none",
    on_disk: OnDisk = False,
    workers: Workers = 4,
    nodes: Nodes = 0,
    request_seconds: Request = None,
    tokens_a_minute: Minute = None,
    model: Model = None,
    measured: From = FILE,
    as_json: options.AsJson = False,
) -> None:
    """Reckon the stores, the time and the money so many records take; nothing is opened or changed.

    Each figure comes with its sum. The measurements it rests on are printed too; give a file of your own, measured on
    your machines, with --measured.

    \b
    Examples:
      memory plan --records 1e9 --tenants 1e4
      memory plan --records 1e8 --dimensions 1536 --model openai/text-embedding-3-small --request-seconds 0.3
    """
    wish = Wish(
        records=records,
        tenants=tenants,
        text_bytes=text_bytes,
        tokens=tokens,
        dimensions=dimensions,
        archived=archived,
        hot=hot,
        quantization=quantization,
        on_disk=on_disk,
        workers=workers,
        nodes=nodes,
        seconds_a_request=request_seconds,
        tokens_a_minute=tokens_a_minute,
        price=None if model is None else _price(model),
    )
    known = measurements(measured)
    _show(plan(wish, known), known, as_json=as_json)


def _show(lines: list[Line], known: Measurements, *, as_json: bool) -> None:
    if as_json:
        rested = {name: asdict(one) for name, one in known.items()}
        show_json({"figures": [asdict(one) for one in lines], "measured": rested})
        return
    show_table(COLUMNS, [(one.part, one.what, shown(one), one.sum) for one in lines])
    say("\nIt rests on these measurements; yours will differ:\n")
    show_table(["measured", "value", "how"], [(name, f"{one.value:,g}", one.how) for name, one in known.items()])


def _price(model: str) -> float:
    provider, _, name = model.partition("/")
    price = price_of(provider, name)
    if price is None:
        raise Refused("the price of this model is not known", where="model")
    return price


def shown(line: Line) -> str:
    """A figure as people read it: bytes and seconds in a unit that fits."""
    value = line.value
    if line.unit in {"B", "s"}:
        for name, size in UNITS if line.unit == "B" else TIMES:
            if value >= size:
                return f"{value / size:,.1f} {name}"
    return f"{value:,.0f} {line.unit}".rstrip() if line.unit != "USD" else f"{value:,.2f} USD"
