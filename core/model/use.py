"""What embedding took, and what it cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date

MILLION = 1_000_000


def money_of(tokens: int, price: float | None) -> float | None:
    """What tokens cost, at a price per million; None: the price is not known."""
    return None if price is None else tokens * price / MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What was asked of a provider: requests, texts and the tokens it counted; and what reuse spared.

    `batch_tokens` of the tokens went by batch jobs.
    """

    requests: int = 0
    texts: int = 0
    tokens: int = 0
    batch_tokens: int = 0
    reused_texts: int = 0
    reused_tokens: int = 0

    def minus(self, other: Use) -> Use:
        """What it has more than another."""
        mine, theirs = asdict(self), asdict(other)
        return Use(**{name: mine[name] - theirs[name] for name in mine})

    def money(self, price: float | None, batch_price: float | None = None) -> float | None:
        """What it cost, at a price per million tokens; None: the price is not known.

        `batch_price` is that of batch jobs; where it is not known they count at the other.
        """
        if price is None:
            return None
        each = price if batch_price is None else batch_price
        return ((self.tokens - self.batch_tokens) * price + self.batch_tokens * each) / MILLION

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to note."""
        return not (self.requests or self.reused_texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayOfUse:
    """The use of one model for one tenant on one day (UTC)."""

    tenant: str
    day: date
    provider: str
    model: str
    use: Use

    def money(self, price: float | None, batch_price: float | None = None) -> float | None:
        """What it cost; see `Use.money`."""
        return self.use.money(price, batch_price)

    def saved(self, price: float | None) -> float | None:
        """What reuse saved, at that price."""
        return money_of(self.use.reused_tokens, price)
