"""Commands on the knowledge graph: show, list, path, support, put, withdraw, merge."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from core.assembly import open_engine
from core.errors import NotFound
from core.model.graph import MOST_DEPTH, MOST_LISTED, MOST_NEIGHBOURS, MOST_PATHS, RELATED, Link, Named, Relation
from core.settings import load_settings
from deployments import options
from deployments.output import say, show_json, show_table


class Way(StrEnum):
    """In which direction relations are followed."""

    ANY = "any"
    OUT = "out"
    IN = "in"


Name = Annotated[str, typer.Argument(metavar="ENTITY", help="Any of its names, in any case.")]
Source = Annotated[str, typer.Argument(metavar="SOURCE", help="Name of an entity.")]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="Name of another.")]
Kinds = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Only relations of this type; may be repeated.")
]
Kind = Annotated[str, typer.Option("--type", metavar="TYPE", help="Type of the relation.")]
Supporter = Annotated[
    str | None, typer.Option("--memory", metavar="ID", help="The memory that supports it; without: stated by hand.")
]
Direction = Annotated[Way, typer.Option(help="Follow relations both ways, or one way only.")]


def show(
    name: Name,
    tenant: options.Tenant,
    depth: Annotated[int, typer.Option(min=1, max=MOST_DEPTH, help="Steps to look.")] = 1,
    limit: Annotated[int, typer.Option(min=1, max=MOST_NEIGHBOURS, help="Neighbours at the most.")] = 50,
    kinds: Kinds = None,
    direction: Direction = Way.ANY,
    as_json: options.AsJson = False,
) -> None:
    """Show an entity, its names, and what it is related to.

    \b
    Example:
      memory graph show "Ada Lovelace" --tenant clinic --depth 2
    """
    with open_engine(load_settings()) as engine:
        found = engine.graph.entity(tenant, name)
        near = engine.graph.neighbours(tenant, name, depth, limit, kinds or None, direction.value)
    if as_json:
        show_json({"entity": asdict(found), "neighbours": [asdict(one) for one in near]})
        return
    others = [one for one in found.names if one != found.name]
    say(f"{found.name}  ({found.type or 'no type'}{', stated by hand' if found.stated else ''})")
    if others:
        say(f"also: {', '.join(others)}")
    rows = [
        (one.distance, one.entity.name, one.entity.type, f"{one.link.weight:g}", one.link.memories, _told(one.link))
        for one in near
    ]
    show_table(["steps", "entity", "type", "weight", "memories", "by"], rows)


def list_entities(
    tenant: options.Tenant,
    kind: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only this type of entity.")] = None,
    after: Annotated[str | None, typer.Option(metavar="NAME", help="Begin behind this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LISTED, help="How many at the most.")] = 50,
    as_json: options.AsJson = False,
) -> None:
    """List entities by name.

    \b
    Example:
      memory graph list --tenant studio --type tag
    """
    with open_engine(load_settings()) as engine:
        found = engine.graph.entities(tenant, kind, after, limit)
    if as_json:
        show_json([asdict(one) for one in found])
        return
    show_table(["entity", "type", "stated"], [(one.name, one.type, "yes" if one.stated else "") for one in found])


def path(  # noqa: PLR0913, PLR0917  one parameter an option
    begin: Source,
    end: Target,
    tenant: options.Tenant,
    depth: Annotated[int, typer.Option(min=1, max=MOST_DEPTH, help="Steps at the most.")] = 4,
    limit: Annotated[int, typer.Option(min=1, max=MOST_PATHS, help="Paths at the most.")] = 10,
    kinds: Kinds = None,
    direction: Direction = Way.ANY,
    as_json: options.AsJson = False,
) -> None:
    """Show how one entity leads to another, the shortest way first.

    \b
    Example:
      memory graph path "Ana Ruiz" "Dr. Novak" --tenant clinic
    """
    with open_engine(load_settings()) as engine:
        ways = engine.graph.paths(tenant, begin, end, depth, limit, kinds or None, direction.value)
    if as_json:
        show_json([asdict(one) for one in ways])
        return
    for way in ways:
        say(" – ".join(way.names))
        for link in way.links:
            say(f"    {_told(link)}  ({link.weight:g})")
    if not ways:
        say(f"no way of {depth} steps or fewer")


def support(
    source: Source,
    target: Target,
    tenant: options.Tenant,
    kind: Kind = RELATED,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Begin behind this memory.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LISTED, help="How many at the most.")] = 50,
    as_json: options.AsJson = False,
) -> None:
    """Show the memories that support a relation.

    \b
    Example:
      memory graph support ingest disk-full --type "links to" --tenant studio
    """
    with open_engine(load_settings()) as engine:
        found = engine.graph.support(tenant, source, kind, target, after, limit)
    if as_json:
        show_json([asdict(one) for one in found])
        return
    show_table(["memory", "weight"], [(one.memory_id or "stated by hand", f"{one.weight:g}") for one in found])


def put(  # noqa: PLR0913, PLR0917  one parameter an option
    source: Source,
    tenant: options.Tenant,
    target: Annotated[str | None, typer.Argument(metavar="[TARGET]", help="Name of another.")] = None,
    kind: Kind = RELATED,
    weight: Annotated[float, typer.Option(metavar="NUMBER", help="Above 0.")] = 1.0,
    memory_id: Supporter = None,
    source_type: Annotated[str | None, typer.Option(metavar="TYPE", help="What the source is.")] = None,
    target_type: Annotated[str | None, typer.Option(metavar="TYPE", help="What the target is.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """State an entity, or a relation between two. Again it changes its weight and types.

    \b
    Examples:
      memory graph put "Ana Ruiz" --source-type person --tenant clinic
      memory graph put "Ana Ruiz" "Dr. Novak" --type "patient of" --tenant clinic --memory letter-7
    """
    with open_engine(load_settings()) as engine:
        if target is None:
            engine.graph.put(tenant, [Named(name=source, type=source_type)])
        else:
            stated = Relation(
                source=source,
                target=target,
                type=kind,
                weight=weight,
                source_type=source_type,
                target_type=target_type,
            )
            if memory_id is None:
                engine.graph.put(tenant, (), [stated])
            else:
                engine.graph.relate(tenant, memory_id, [stated])
    if as_json:
        show_json({"source": source, "target": target, "type": None if target is None else kind})
    else:
        say(f"put: {source}" if target is None else f"put: {source} – {kind} – {target}")


def withdraw(
    source: Source,
    tenant: options.Tenant,
    target: Annotated[str | None, typer.Argument(metavar="[TARGET]", help="Name of another.")] = None,
    kind: Kind = RELATED,
    memory_id: Supporter = None,
    as_json: options.AsJson = False,
) -> None:
    """Take back an entity or a relation that was stated. What memories support stays, unless --memory names one.

    \b
    Example:
      memory graph withdraw "Ana Ruiz" "Dr. Novak" --type "patient of" --tenant clinic
    """
    with open_engine(load_settings()) as engine:
        if target is None:
            gone = engine.graph.forget(tenant, source)
        else:
            gone = bool(engine.graph.withdraw(tenant, [Relation(source=source, target=target, type=kind)], memory_id))
    if not gone:
        raise NotFound("nothing of the kind was stated")
    show_json({"withdrawn": True}) if as_json else say("withdrawn")


def merge(
    keep: Annotated[str, typer.Argument(metavar="KEEP", help="The entity the others become part of.")],
    others: Annotated[list[str], typer.Argument(metavar="OTHER...", help="Names that mean the same.")],
    tenant: options.Tenant,
    as_json: options.AsJson = False,
) -> None:
    """Make entities one: all their names lead to the one that is kept, now and with what is written later.

    \b
    Example:
      memory graph merge "Ana Ruiz" Ana "Mrs Ruiz" --tenant clinic
    """
    with open_engine(load_settings()) as engine:
        merged = engine.graph.merge(tenant, keep, others)
        found = engine.graph.entity(tenant, keep)
    if as_json:
        show_json({"merged": merged, "entity": asdict(found)})
    else:
        say(f"{merged} became part of {found.name}; its names: {', '.join(found.names)}")


def _told(link: Link) -> str:
    return f"{link.source} – {link.type} – {link.target}"
