"""What becomes of a memory as it ages: pure decisions, from facts that hold no content.

A memory rests since it was last read or changed. By how long it rests, how much it matters and of what type it is,
it moves from warm to cold and into the archive; by its own end, or the time to live of its type, it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from core.model.memory import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What holds for the memories of one type of one tenant; a span of None: never.

    `cold_after` and `archive_after` count from the last access, `time_to_live` from creation. Memories at least as
    important as `spare_importance` stay warm.
    """

    cold_after: timedelta | None = timedelta(days=30)
    archive_after: timedelta | None = timedelta(days=180)
    spare_importance: float = 0.9
    time_to_live: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A change of the policy for one tenant (None: all) and one type (None: all): its `set` fields by name."""

    tenant: str | None = None
    type: str | None = None
    changes: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a policy judges a memory by. `rests_since`: when it was last read or changed."""

    id: str
    version: int
    type: str
    importance: float
    tier: Tier
    keep: bool
    created_at: datetime
    rests_since: datetime
    expires_at: datetime | None


class Action(StrEnum):
    """What is to be done with a memory."""

    WARM = "warm"
    COLD = "cold"
    ARCHIVE = "archive"
    REAP = "reap"


class Policies:
    """The policies of all tenants and types, from rules. The more a rule names, the more it counts.

    A rule for a tenant and a type stands above one for a tenant, that above one for a type, and that above one for
    all; of two that name the same, the later one counts. Each changes only the fields it sets.
    """

    def __init__(self, rules: Sequence[Rule] = (), default: Policy | None = None) -> None:
        self._rules = sorted(rules, key=_weight)
        self._default = default or Policy()

    def of(self, tenant: str, kind: str | None) -> Policy:
        """The policy for a type of a tenant; None: for types that no rule names."""
        policy = self._default
        for rule in self._rules:
            if rule.tenant in (None, tenant) and rule.type in (None, kind):
                policy = replace(policy, **dict(rule.changes))
        return policy

    def types(self, tenant: str) -> list[str]:
        """The types that have a policy of their own for this tenant."""
        return sorted({rule.type for rule in self._rules if rule.type is not None and rule.tenant in (None, tenant)})

    def all_of(self, tenant: str) -> dict[str | None, Policy]:
        """Every policy of a tenant by type; under None the one for all other types."""
        return {kind: self.of(tenant, kind) for kind in [None, *self.types(tenant)]}

    def least_rest(self, tenant: str) -> timedelta | None:
        """No memory that rests for less moves; None: none of this tenant ever does."""
        spans = [span for policy in self.all_of(tenant).values() for span in (policy.cold_after, policy.archive_after)]
        return min((span for span in spans if span is not None), default=None)


def decide(facts: Facts, policy: Policy, now: datetime) -> Action | None:
    """What is to be done with a memory at a time; None: it stays where it is."""
    if facts.keep:
        return None
    if is_over(facts, policy, now):
        return Action.REAP
    if facts.tier == "archive":
        return None
    wanted = _tier(facts, policy, now)
    return None if wanted.value == facts.tier else wanted


def is_over(facts: Facts, policy: Policy, now: datetime) -> bool:
    """Whether a memory's own end, or the time to live of its type, has come."""
    lives = policy.time_to_live
    return (facts.expires_at is not None and facts.expires_at <= now) or (
        lives is not None and facts.created_at <= now - lives
    )


def shown(policy: Policy) -> dict[str, object]:
    """A policy by field, spans in days, for people and JSON."""
    return {
        name: round(value / timedelta(days=1), 3) if isinstance(value, timedelta) else value
        for name, value in asdict(policy).items()
    }


def _tier(facts: Facts, policy: Policy, now: datetime) -> Action:
    rests = now - facts.rests_since
    if facts.importance >= policy.spare_importance:
        return Action.WARM
    if policy.archive_after is not None and rests >= policy.archive_after:
        return Action.ARCHIVE
    if policy.cold_after is not None and rests >= policy.cold_after:
        return Action.COLD
    return Action.WARM


def _weight(rule: Rule) -> int:
    return 2 * (rule.tenant is not None) + (rule.type is not None)


POLICY_FIELDS = tuple(field.name for field in fields(Policy))
