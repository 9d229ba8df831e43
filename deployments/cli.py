"""The command `memory`.

Exit codes: 0 done, 1 failed, 2 wrong use, 3 done in part (something was refused, set aside or still waits),
130 interrupted. Prefect is imported by the commands that run flows, and by no other: it takes seconds.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from core.assembly.logs import set_up_logs
from core.errors import EngineError, Misconfigured
from core.settings import load_settings
from deployments import (
    commands_batch,
    commands_costs,
    commands_demo,
    commands_doctor,
    commands_generations,
    commands_graph,
    commands_home,
    commands_import,
    commands_lifecycle,
    commands_memories,
    commands_metrics,
    commands_plan,
    commands_quality,
    commands_reconcile,
    commands_recover,
    commands_reindex,
    commands_run,
    commands_serve,
    commands_set_aside,
    commands_snapshot,
    commands_up,
    commands_watch,
)
from deployments.output import Exit, hint, report_error, report_json_error

# A terminal that closes or a service that stops asks for the same as Ctrl-C.
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

INTERRUPTED = {
    "import": "What was imported so far is kept; import the same again to go on.",
    "demo": "Nothing is lost; run `memory demo` again to go on.",
    "reindex": "Nothing is lost; run the same `memory reindex` again to go on.",
    "recover": "Nothing is lost; run `memory recover` again to go on.",
    "reconcile": "Nothing is lost; run `memory reconcile` again to go on.",
    "run": "Nothing is lost; run `memory run nightly` again to go on.",
    "watch": "What was imported is kept; `memory watch` goes on from there.",
}

# The base of all errors of wrong use. Typer brings its own copy of click or uses click itself, by version.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """The top group: the one place where errors become lines and exit codes."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """As usual, noting whether JSON was asked for: errors of wrong use come before options are read."""
        asked = "--json" in args[: args.index("--")] if "--" in args else "--json" in args
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except _UsageError as problem:
            raise self._wrong_use(problem, as_json=asked) from None
        context.meta["as_json"] = asked
        return context

    def invoke(self, ctx: Any) -> Any:
        """Run the command; known errors end it with their exit code and without a traceback."""
        as_json = bool(ctx.meta.get("as_json"))
        with suppress(Misconfigured):  # the command itself says so, if it needs them
            set_up_logs(load_settings())
        try:
            return super().invoke(ctx)
        except EngineError as problem:
            raise typer.Exit(report_error(problem, as_json=as_json)) from None
        except _UsageError as problem:
            raise self._wrong_use(problem, as_json=as_json) from None
        except KeyboardInterrupt:
            command = str(ctx.invoked_subcommand)
            told = INTERRUPTED.get(command, "Nothing is half-done; run it again.")
            if as_json:
                report_json_error({"kind": "Interrupted", "message": told})
            else:
                hint(f"Interrupted. {told}")
            raise typer.Exit(Exit.INTERRUPTED) from None

    @staticmethod
    def _wrong_use(problem: Any, *, as_json: bool) -> Exception:
        """The error itself, which Typer shows, or the end of the command once it is shown as JSON."""
        if not as_json:
            return problem  # type: ignore[no-any-return]
        report_json_error({"kind": "Usage", "message": problem.format_message()})
        return typer.Exit(Exit.WRONG_USE)


app = typer.Typer(
    name="memory",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,  # help that keeps its paragraphs and can be read in a log
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Long-term memories for AI agents.

    \b
    Begin with:
      memory demo
      memory add "Ana prefers mornings" --tenant clinic
      memory run embed
      memory search "when does Ana have time?" --tenant clinic

    Exit codes: 0 done, 1 failed, 2 wrong use, 3 done in part, 130 interrupted.
    """,
)
generations_app = typer.Typer(help="The indexes of each tenant: show, abort, drop, sweep.")
run_app = typer.Typer(
    no_args_is_help=True,
    help="Run a flow here: embed, batch-lane, archive, reap, rotate, relay, quality, or nightly (the chores in turn).",
)
batch_app = typer.Typer(no_args_is_help=True, help="Jobs of the provider's batch API: list, cancel.")
graph_app = typer.Typer(
    no_args_is_help=True,
    help="What memories say of whom: show, list, path, support, put, withdraw, merge.",
)
aside_app = typer.Typer(no_args_is_help=True, help="Index work that was taken out of the queue: list, retry, drop.")

app.command("init")(commands_home.init)
app.command("import")(commands_import.import_path)
app.command("watch")(commands_watch.watch)
app.command("add")(commands_memories.add)
app.command("get")(commands_memories.get)
app.command("list")(commands_memories.list_memories)
app.command("search")(commands_memories.search)
app.command("delete")(commands_memories.delete)
app.command("snapshot")(commands_snapshot.snapshot)
app.command("recover")(commands_recover.recover)
app.command("policy")(commands_lifecycle.policy)
app.command("keep")(commands_lifecycle.keep)
app.command("restore")(commands_lifecycle.restore)
app.command("erase")(commands_lifecycle.erase)
app.command("reconcile")(commands_reconcile.reconcile)
app.command("drift")(commands_reconcile.drift)
app.command("status")(commands_home.status)
app.command("costs")(commands_costs.costs)
app.command("metrics")(commands_metrics.metrics)
app.command("plan")(commands_plan.plan_size)
app.command("docs")(commands_quality.docs)
app.command("doctor")(commands_doctor.doctor)
app.add_typer(run_app, name="run")
run_app.command("embed")(commands_run.run_embed)
run_app.command("batch-lane")(commands_run.run_batch_lane)
run_app.command("relay")(commands_run.run_relay)
run_app.command("nightly")(commands_run.run_nightly)
app.command("reindex")(commands_reindex.reindex)
app.command("rollback")(commands_generations.rollback)
app.add_typer(generations_app, name="generations")
generations_app.callback(invoke_without_command=True)(commands_generations.show)
generations_app.command("abort")(commands_generations.abort)
generations_app.command("drop")(commands_generations.drop)
generations_app.command("sweep")(commands_generations.sweep)
app.add_typer(batch_app, name="batch")
batch_app.command("list")(commands_batch.list_jobs)
batch_app.command("cancel")(commands_batch.cancel_job)
run_app.command("archive")(commands_lifecycle.run_archive)
run_app.command("reap")(commands_lifecycle.run_reap)
run_app.command("quality")(commands_quality.run_quality)
run_app.command("rotate")(commands_lifecycle.run_rotate)
app.add_typer(aside_app, name="set-aside")
aside_app.command("list")(commands_set_aside.list_set_aside)
aside_app.command("retry")(commands_set_aside.retry)
aside_app.command("drop")(commands_set_aside.drop)
app.add_typer(graph_app, name="graph")
graph_app.command("show")(commands_graph.show)
graph_app.command("list")(commands_graph.list_entities)
graph_app.command("path")(commands_graph.path)
graph_app.command("support")(commands_graph.support)
graph_app.command("put")(commands_graph.put)
graph_app.command("withdraw")(commands_graph.withdraw)
graph_app.command("merge")(commands_graph.merge)
app.command("tend")(commands_serve.tend)
app.command("serve")(commands_serve.serve)
app.command("deploy")(commands_serve.deploy)
app.command("up")(commands_up.up)
app.command("down")(commands_up.down)
app.command("demo")(commands_demo.demo)


def main() -> None:
    """Entry point of the console script."""
    for number in ENDINGS:
        signal.signal(number, _end_orderly)
    app(prog_name="memory")


def _end_orderly(_number: int, _frame: object) -> None:
    """End once what is under way is done. Asking again changes nothing: it would stop that halfway."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    if sys.stderr.isatty():
        hint("Ending, as soon as what is under way is done …")
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
