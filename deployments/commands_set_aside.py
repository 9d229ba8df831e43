"""Commands on index work that was taken out of the queue: list, retry, drop."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from core.assembly import open_engine
from core.settings import load_settings
from deployments import options
from deployments.output import say, show_json, show_table

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Memories' ids. Default: all of the tenant.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="How many at the most.")]


def list_set_aside(tenant: options.Tenant, limit: Limit = 100, as_json: options.AsJson = False) -> None:
    """List what was set aside, oldest first, with the reasons.

    \b
    Example:
      memory set-aside list --tenant clinic
    """
    with open_engine(load_settings()) as engine:
        found = engine.set_aside(tenant, limit)
    if as_json:
        show_json([asdict(one) for one in found])
        return
    show_table(["id", "since (UTC)", "reason"], [(one.memory_id, one.since, one.reason) for one in found])


def retry(tenant: options.Tenant, memory_ids: Ids = None, as_json: options.AsJson = False) -> None:
    """Bring set-aside work back into the queue; the next run tries it again.

    \b
    Examples:
      memory set-aside retry --tenant clinic
      memory set-aside retry letter-7 --tenant clinic
    """
    with open_engine(load_settings()) as engine:
        retried = engine.retry(tenant, memory_ids or None)
    if as_json:
        show_json({"retried": list(retried)})
    else:
        say(f"{len(retried)} to be tried again by the next `memory run embed`")


def drop(
    tenant: options.Tenant,
    memory_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Memories' ids.")],
    as_json: options.AsJson = False,
) -> None:
    """Give set-aside work up: the memories are kept, and no search finds them until they change.

    \b
    Example:
      memory set-aside drop letter-7 --tenant clinic
    """
    with open_engine(load_settings()) as engine:
        dropped = engine.drop_set_aside(tenant, memory_ids)
    if as_json:
        show_json({"dropped": list(dropped)})
    else:
        say(f"{len(dropped)} given up")
