"""Commands on the installation: init, status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from core.assembly import open_engine
from core.model.coverage import Coverage, LeasedRun
from core.model.outbox import SetAside
from core.settings import Settings, load_settings
from deployments import options
from deployments.output import say, show_json, show_table

SET_ASIDE_SHOWN = 20


def init(as_json: options.AsJson = False) -> None:
    """Get everything ready: the stores are started and their schema is brought up to date.

    Other commands do the same when they need it; this one shows early whether it works. Rows that an earlier
    release wrote are given their words for the keyword leg, a piece at a time. Nothing has to be
    installed or started before: what MEMORY_* or memory.toml do not name runs embedded, in MEMORY_HOME
    (here .memory, unless you choose another).

    \b
    Examples:
      memory init
      MEMORY_HOME=~/.memory memory init
    """
    settings = load_settings()
    with open_engine(settings) as engine:
        tenants = [one.tenant for one in engine.backlog()]
        refilled = sum(sum(engine.refill(tenant)) for tenant in tenants)
    if as_json:
        show_json({"stores": stores_of(settings), "tenants": tenants, "refilled": refilled})
        return
    if refilled:
        say(f"{refilled:,} rows of an earlier release were brought up to this one.")
    _show_stores(settings)
    say(f'Ready, with {len(tenants)} tenants. Next: `memory add "…" --tenant NAME`, or `memory demo`.')


def status(tenants: options.SomeTenants = None, as_json: options.AsJson = False) -> None:
    """Show what each tenant has, what waits, what was set aside and why, and which stores are used.

    Runs that hold work are shown with what is left of their lease; one whose lease has run out is dead, and what it
    held is free for the next run, whatever Prefect says of it.

    \b
    Examples:
      memory status
      memory status --tenant clinic --json
    """
    settings = load_settings()
    with open_engine(settings) as engine:
        backlog = engine.backlog(tenants)
        aside = [one for tenant in backlog if tenant.set_aside for one in engine.set_aside(tenant.tenant)]
        lag = engine.upkeep.event_lag(tenants)
        coverage = engine.upkeep.coverage(tenants)
        runs = engine.upkeep.runs(tenants)
        gone = [one for one in engine.safekeeping.index_health(tenants) if one.mostly_gone]
        rates = {kind: {"asked": asked, "hit": hit} for kind, (asked, hit) in engine.cache_rates().items()}
    if as_json:
        listed = [asdict(one) for one in backlog]
        show_json(
            {
                "tenants": listed,
                "set_aside": [asdict(one) for one in aside],
                "events": [asdict(one) for one in lag],
                "coverage": [asdict(one) for one in coverage],
                "runs": [{**asdict(one), "dead": one.dead} for one in runs],
                "index_mostly_gone": [asdict(one) for one in gone],
                "stores": stores_of(settings),
                "caches": rates,
            }
        )
        return
    rows = [(one.tenant, one.records, one.waiting, one.in_batch, one.set_aside, one.oldest_waiting) for one in backlog]
    show_table(["tenant", "records", "waiting", "in batch jobs", "set aside", "oldest waiting (UTC)"], rows)
    _show_aside(aside)
    say("")
    _show_coverage(coverage)
    _show_runs(runs)
    if any(one.waiting for one in lag):
        say("")
        told = [(one.tenant, one.waiting, one.oldest, one.relayed_at) for one in lag]
        show_table(["tenant", "events to tell", "oldest (UTC)", "last told (UTC)"], told)
    for one in gone:
        say(f"\nThe index of {one.tenant} is mostly gone: {one.points} points of {one.due}.")
        say(f"`memory recover --tenant {one.tenant}` rebuilds it.")
    say("")
    kept = [
        (kind, one["asked"], f"{one['hit'] / one['asked']:.0%}" if one["asked"] else "") for kind, one in rates.items()
    ]
    show_table(["cache", "asked", "found there"], kept)
    say("")
    _show_stores(settings)


def stores_of(settings: Settings) -> dict[str, str]:
    """Which stores are used, by what they are for. Addresses may hold passwords: they are not shown."""
    home = settings.home.resolve()
    if not settings.cache:
        cache = "none"
    elif settings.redis_url is None:
        cache = f"embedded Valkey in {home / 'valkey'}"
    else:
        cache = "yours (MEMORY_REDIS_URL)"
    embedded = settings.postgres_url is None
    objects = settings.objects_url or f"the folder {home / 'objects'}"
    return {
        "record": f"embedded PostgreSQL in {home / 'postgres'}" if embedded else "yours (MEMORY_POSTGRES_URL)",
        "cache": cache,
        "index": f"Qdrant Edge in {home / 'vectors'}" if settings.qdrant_url is None else "yours (MEMORY_QDRANT_URL)",
        "objects": objects if settings.objects_url is None else "yours (MEMORY_OBJECTS_URL)",
        "embedding": " ".join(filter(None, (settings.embedding_provider, settings.embedding_model))),
    }


def _show_stores(settings: Settings) -> None:
    show_table(["store", "where"], list(stores_of(settings).items()))


def _show_coverage(coverage: Sequence[Coverage]) -> None:
    """Each store: what it should hold, what of that waits, and how it was when it was last compared."""
    rows = [
        (
            one.tenant,
            f"{one.store} {one.generation}" if one.generation else one.store,
            one.state,
            one.records,
            "unknown" if one.points is None and one.generation else one.points,
            one.waiting,
            one.set_aside,
            one.oldest_waiting,
            one.verdict or "never compared",
            one.clean_at,
            one.found_at,
        )
        for one in coverage
    ]
    columns = ["tenant", "store", "state", "records", "points", "waiting", "set aside", "oldest (UTC)"]
    show_table([*columns, "last look", "clean (UTC)", "drift (UTC)"], rows)


def _show_runs(runs: Sequence[LeasedRun]) -> None:
    """Who is at work, and whose lease has run out: what such a one held is free for the next run."""
    if not runs:
        return
    say("")
    rows = [
        (
            one.tenant,
            one.chore,
            one.generation,
            one.entries,
            one.begun,
            f"dead for {-one.left:,.0f} s" if one.dead else f"running, its lease ends in {one.left:,.0f} s",
        )
        for one in runs
    ]
    show_table(["tenant", "run", "index", "holds", "begun (UTC)", "state"], rows)


def _show_aside(aside: Sequence[SetAside]) -> None:
    if aside:
        say("\nSet aside (`memory set-aside retry` tries it again):")
        rows = [(one.tenant, one.memory_id, one.since, one.reason) for one in aside[:SET_ASIDE_SHOWN]]
        show_table(["tenant", "id", "since (UTC)", "reason"], rows)
    if len(aside) > SET_ASIDE_SHOWN:
        say(f"… and {len(aside) - SET_ASIDE_SHOWN} more; --json lists up to 100 a tenant.")
