"""Commands on how memories age and go: policy, keep, restore, erase, and the runs of archive, reap and rotate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.assembly import open_engine
from core.batch import erase as chore
from core.errors import NotFound, Refused, Unavailable
from core.model.erasure import Request
from core.model.policy import shown
from core.settings import load_settings
from core.write.restore import Became, Restored
from deployments import options
from deployments.commands_run import run_flow
from deployments.output import Exit, hint, say, show_json, show_table

if TYPE_CHECKING:
    from prefect import State

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Memories' ids.")]
SomeIds = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Memories' ids.")]
Everything = Annotated[bool, typer.Option("--all", help="All of the tenant.")]
Kind = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Such as fact, turn, note.")]
MOST_STEPS = 1_000_000


def policy(
    tenants: options.SomeTenants = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="What a run would move and reap now, with examples.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show when memories turn cold, are archived and go (spans in days), by tenant and type.

    \b
    Examples:
      memory policy --tenant clinic
      memory policy --dry-run
    """
    with open_engine(load_settings()) as engine:
        names = engine.lifecycle.tenants(tenants)
        if dry_run:
            rows = [
                {"tenant": tenant, **asdict(one)}
                for tenant in names
                for one in engine.lifecycle.forecast(tenant).expected
                if one.memories
            ]
            columns = ["tenant", "action", "type", "memories", "examples"]
        else:
            rows = [
                {"tenant": tenant, "type": kind or "all others", **shown(one)}
                for tenant in names
                for kind, one in engine.lifecycle.policy(tenant).items()
            ]
            columns = ["tenant", "type", "cold_after", "archive_after", "spare_importance", "time_to_live"]
    if as_json:
        show_json(rows)
        return
    show_table(columns, [[_cell(row[column]) for column in columns] for row in rows])
    if dry_run and not rows:
        say("A run would move and reap nothing.")


def keep(
    memory_ids: Ids,
    tenant: options.Tenant,
    off: Annotated[bool, typer.Option("--off", help="Take the mark away again.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Mark memories so that nothing moves or reaps them. A kept memory loses its end.

    \b
    Example:
      memory keep letter-7 --tenant clinic
    """
    with open_engine(load_settings()) as engine:
        marked = engine.lifecycle.keep(tenant, memory_ids, keep=not off)
    if as_json:
        show_json({"kept" if not off else "no_longer_kept": list(marked)})
    else:
        say(f"{len(marked)} {'no longer kept' if off else 'kept'}")
    if len(marked) < len(set(memory_ids)):
        raise NotFound(f"{len(set(memory_ids)) - len(marked)} of them are not there")


def restore(
    tenant: options.Tenant,
    memory_ids: SomeIds = None,
    everything: Everything = False,
    session: options.Session = None,
    kind: Kind = None,
    as_json: options.AsJson = False,
) -> None:
    """Bring archived memories back: warm, and found by meaning once `memory run embed` has run.

    One that changed meanwhile keeps its newer state; one whose object is damaged is left as it is (exit code 3).

    \b
    Examples:
      memory restore letter-7 --tenant clinic
      memory restore --tenant clinic --session s1
    """
    if bool(memory_ids) == bool(everything or session or kind):
        raise Refused("say which: ids, or --session, --type or --all", where="restore")
    with open_engine(load_settings()) as engine:
        if memory_ids:
            found = list(engine.lifecycle.restore(tenant, memory_ids))
        else:
            found = [one for piece in engine.lifecycle.restore_all(tenant, session, kind) for one in piece]
    _show_restored(found, as_json=as_json)


def erase(
    tenant: options.Tenant,
    memory_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="One memory.")] = None,
    session: options.Session = None,
    subject: Annotated[str | None, typer.Option(metavar="NAME", help="All that is about one person.")] = None,
    everything: Everything = False,
    as_json: options.AsJson = False,
) -> None:
    """Erase for good, from every store and every stored version of an object, and print the receipt (JSON).

    Run again it goes on, looks again and confirms. Exit code 3: pending, which the receipt says until when.

    \b
    Examples:
      memory erase --tenant clinic --subject ana > receipt.json
      memory erase --tenant clinic --all
    """
    asked = {"id": memory_id, "session": session, "subject": subject}
    named = [(kind, value) for kind, value in asked.items() if value]
    if len(named) + everything != 1:
        raise Refused("say what, and one thing only: --id, --session, --subject or --all", where="erase")
    kind, value = ("all", "") if everything else named[0]
    request = Request(tenant=tenant, kind=kind, value=value)  # type: ignore[arg-type]
    with open_engine(load_settings()) as engine:
        engine.lifecycle.tenants([tenant])  # through the gate
        report = _erased(engine.lifecycle.erase_work(), request)
    if report.receipt is None:
        raise Unavailable(f"not erased everywhere yet: {report.postponed}")
    show_json(report.receipt)
    if report.receipt["outcome"] == "pending" and not as_json:
        hint(f"Gone; whether it stays so can be said after {report.receipt['pending_until']}: run it again then.")
    if report.receipt["outcome"] != "gone":
        raise typer.Exit(Exit.IN_PART if report.receipt["outcome"] == "pending" else Exit.FAILED)


def run_archive(tenants: options.SomeTenants = None, as_json: options.AsJson = False) -> None:
    """Move memories by policy: to cold, back to warm, into the archive.

    \b
    Example:
      memory run archive --tenant clinic
    """

    def flow() -> State[Any]:
        from flows.archive import archive

        return archive(tenants=_named(tenants), return_state=True)

    columns = ["archived", "cooled", "warmed", "moved_on", "failed_count", "bytes_before", "bytes_after"]
    _run(flow, columns, tenants, as_json=as_json)


def run_reap(tenants: options.SomeTenants = None, as_json: options.AsJson = False) -> None:
    """Delete what is at its end, purge what was deleted, trim what is old, sweep objects nobody points at.

    \b
    Example:
      memory run reap
    """

    def flow() -> State[Any]:
        from flows.reap import reap

        return reap(tenants=_named(tenants), return_state=True)

    columns = ["expired", "purged", "waiting", "versions", "events", "tombstones", "relations", "objects"]
    _run(flow, columns, tenants, as_json=as_json)


def run_rotate(
    tenants: options.SomeTenants = None,
    new_key: Annotated[bool, typer.Option("--new-key", help="Make a new data key for each tenant first.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Put data keys under the master key in use, and sensitive memories under their tenant's key in use.

    \b
    Example:
      memory run rotate --new-key --tenant clinic
    """

    def flow() -> State[Any]:
        from flows.rotate import rotate

        return rotate(tenants=_named(tenants), new_key=new_key, return_state=True)

    _run(flow, ["rewrapped", "resealed", "failed"], tenants, as_json=as_json)


def _run(
    flow: Callable[[], State[Any]], columns: Sequence[str], tenants: options.SomeTenants, *, as_json: bool
) -> None:
    state, result = run_flow(flow, tenants, shown=not as_json)
    reports = result if isinstance(result, list) else getattr(result, "details", {}).get("reports", [])
    rows = [{"tenant": one.tenant, **{name: getattr(one, name) for name in columns}} for one in reports]
    message = state.message or state.name or "ended"
    if as_json:
        show_json({"message": message, "failed": not state.is_completed(), "tenants": rows})
    else:
        show_table(["tenant", *[name.replace("_", " ") for name in columns]], [list(row.values()) for row in rows])
        say(message)
    if not state.is_completed():
        raise typer.Exit(Exit.FAILED)
    if message != "completed":
        raise typer.Exit(Exit.IN_PART)


def _erased(work: chore.EraseWork, request: Request) -> chore.Report:
    summed = chore.Report(tenant=request.tenant, next=chore.plan(work, request))
    for _ in range(MOST_STEPS):
        if summed.next is None:
            break
        summed = summed.plus(chore.step(work, summed.next))
    return summed


def _show_restored(found: Sequence[Restored], *, as_json: bool) -> None:
    if as_json:
        show_json([asdict(one) for one in found])
    else:
        for became, count in Counter(one.became for one in found).items():
            say(f"{count} {became}")
        for one in found:
            if one.became in (Became.DAMAGED, Became.GONE, Became.NEWER):
                hint(f"{one.id}: {one.reason}")
    if any(one.became in (Became.DAMAGED, Became.GONE) for one in found):
        raise typer.Exit(Exit.IN_PART)


def _named(tenants: options.SomeTenants) -> list[str] | None:
    return None if tenants is None else list(tenants)


def _cell(value: object) -> object:
    if value is None:
        return "never"
    return ", ".join(map(str, value)) if isinstance(value, list) else value
