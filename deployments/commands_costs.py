"""The command that tells what embedding took and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from core.assembly import open_engine
from core.assembly.models import price_of
from core.model.use import DayOfUse
from core.settings import load_settings
from deployments import options
from deployments.output import say, show_json, show_table

Days = Annotated[int, typer.Option(min=1, max=3660, help="How many days back, today among them (UTC).")]
COLUMNS = ["day", "tenant", "model", "requests", "texts", "tokens", "by batch", "cost", "reused texts", "saved"]


def costs(days: Days = 30, tenants: options.SomeTenants = None, as_json: options.AsJson = False) -> None:
    """Show requests, tokens and money per tenant, model and day, and what reuse of known vectors saved.

    Money goes by today's list price of the model; '-' where no price is known (the bundled model costs nothing).

    \b
    Examples:
      memory costs
      memory costs --days 7 --tenant clinic --json
    """
    with open_engine(load_settings()) as engine:
        found = engine.uses(days, tenants)
    if as_json:
        show_json([_as_dict(one) for one in found])
        return
    show_table(COLUMNS, [_row(one) for one in found])
    _totals(found)


def _as_dict(one: DayOfUse) -> dict[str, Any]:
    price, batch_price = _prices(one)
    whose = {"day": one.day.isoformat(), "tenant": one.tenant, "provider": one.provider, "model": one.model}
    return {**whose, **asdict(one.use), "cost": one.money(price, batch_price), "saved": one.saved(price)}


def _row(one: DayOfUse) -> tuple[str, ...]:
    (price, batch_price), use = _prices(one), one.use
    counts = [f"{count:,}" for count in (use.requests, use.texts, use.tokens, use.batch_tokens)]
    model = f"{one.provider} {one.model}"
    return (
        one.day.isoformat(),
        one.tenant,
        model,
        *counts,
        _money(one.money(price, batch_price)),
        f"{use.reused_texts:,}",
        _money(one.saved(price)),
    )


def _totals(found: Sequence[DayOfUse]) -> None:
    known = [(one, *_prices(one)) for one in found]
    cost = sum(one.money(price, batch_price) or 0.0 for one, price, batch_price in known)
    saved = sum(one.saved(price) or 0.0 for one, price, _ in known)
    say(f"\n{sum(one.use.tokens for one in found):,} tokens, {cost:.4f} USD; reuse saved {saved:.4f} USD")


def _prices(one: DayOfUse) -> tuple[float | None, float | None]:
    return price_of(one.provider, one.model), price_of(one.provider, one.model, batch=True)


def _money(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.4f}"
