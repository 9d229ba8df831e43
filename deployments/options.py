"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

Tenant = Annotated[
    str,
    typer.Option("--tenant", "-t", metavar="NAME", help="Whose memories: no command ever sees another tenant's."),
]
SomeTenants = Annotated[
    list[str] | None,
    typer.Option("--tenant", "-t", metavar="NAME", help="Only this tenant; may be repeated. Default: all."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else; errors as JSON on stderr.")
]
Scope = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The part of the tenant's memories it is in, such as 'user'."),
]
Project = Annotated[str | None, typer.Option(metavar="NAME", help="The project it belongs to.")]
Agent = Annotated[str | None, typer.Option(metavar="NAME", help="The agent that remembers.")]
Session = Annotated[str | None, typer.Option(metavar="NAME", help="The conversation it belongs to.")]
Role = Annotated[str | None, typer.Option(metavar="ROLE", help="Who said it: user, assistant, system, tool.")]


class Lane(StrEnum):
    """How texts go to the provider."""

    ONLINE = "online"
    BATCH = "batch"


InLane = Annotated[Lane, typer.Option(help="batch: by the provider's batch jobs, within a day and at half the price.")]
