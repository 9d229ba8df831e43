"""The commands that keep things going: `memory tend`, `memory serve`, `memory deploy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from core.settings import Settings, load_settings
from deployments import options
from deployments.output import say, show_json, show_table
from deployments.prefect_settings import settle_prefect, start_prefect
from deployments.schedules import TABLE
from deployments.staying import stay

if TYPE_CHECKING:
    from tasks.tending import Tended

POLL_SECONDS = 5.0

Minutes = Annotated[float | None, typer.Option("--for-minutes", min=0.01, help="Stop after so long; else: until told.")]
Pool = Annotated[str, typer.Option(metavar="NAME", help="The work pool whose workers run the flows; made if missing.")]
Served = Annotated[bool, typer.Option("--served", help="For runners (`memory serve`) instead of a work pool.")]
AtOnce = Annotated[int, typer.Option("--at-once", min=1, max=64, help="Runs at once, at the most.")]
Automations = Annotated[bool, typer.Option("--automations", help="Also put the automations there that notify.")]
Notify = Annotated[
    str | None, typer.Option(metavar="TYPE/NAME", help="A notification block of the server, such as slack-webhook/ops.")
]
WithTend = Annotated[bool, typer.Option("--tend/--no-tend", help="Also run the resident loop by its schedule.")]


def tend(for_minutes: Minutes = None) -> None:
    """Stay, and keep the indexes up to date: embed what waits within seconds, ship deletions, follow batch jobs.

    Waits for stores that are away, longer and longer up to a minute. Holds an embedded index only while it works on
    it. Ends on SIGTERM or Ctrl-C, after the batch under way. Needs no Prefect server; run twice it does no harm.

    \b
    Example:
      memory tend
    """

    def chores(settings: Settings) -> Sequence[Tended]:
        from tasks.tending import chores_of

        return chores_of(settings)

    stay(chores, "tend", for_minutes)


def serve(at_once: AtOnce = 3, with_tend: WithTend = True, automations: Automations = False) -> None:
    """Stay, and run every deployment here when it is due or asked for: the simplest worker.

    The server is the one PREFECT_API_URL names. Ends on SIGTERM or Ctrl-C; schedules stay as they are.

    \b
    Example:
      PREFECT_API_URL=http://127.0.0.1:4200/api memory serve
    """
    settle_prefect(load_settings().home)
    start_prefect()
    import asyncio

    from deployments.serving import ready, runner_of

    ready()
    table = TABLE if with_tend else [one for one in TABLE if not one.resident]
    runner = runner_of(table, name="memory", at_once=at_once, look_every=POLL_SECONDS)
    if automations:
        _put_alarms(None)
    asyncio.run(runner.start())


def deploy(
    pool: Pool = "memory",
    served: Served = False,
    automations: Automations = False,
    notify: Notify = None,
    as_json: options.AsJson = False,
) -> None:
    """Put every deployment on the Prefect server that PREFECT_API_URL names, or bring it up to date there.

    Can be repeated; what a person has paused stays paused. Workers then run them:
    `prefect worker start --pool memory`.

    \b
    Examples:
      PREFECT_API_URL=http://prefect:4200/api memory deploy
      memory deploy --pool night-shift
      memory deploy --automations --notify slack-webhook/ops
    """
    settle_prefect(load_settings().home)
    from deployments.serving import put_on_server, ready

    ready()
    start_prefect()
    put_on_server(TABLE, pool=None if served else pool)
    alarms = _put_alarms(notify) if automations or notify else []
    rows = [(one.name, one.cron or "on demand", "one at a time" if one.once else "side by side") for one in TABLE]
    if as_json:
        deployments = [{"name": name, "schedule": cron, "runs": runs} for name, cron, runs in rows]
        show_json({"deployments": deployments, "automations": alarms})
        return
    show_table(["deployment", "schedule (UTC)", "runs"], rows)
    for name in alarms:
        say(f"automation {name}")
    say("for `memory serve`" if served else f"for workers of the pool {pool}: `prefect worker start --pool {pool}`")


def _put_alarms(notify: str | None) -> list[str]:
    from deployments.automations import alarms, put_alarms

    return put_alarms(notify, alarms())
