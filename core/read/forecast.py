"""What tonight's run would move and reap, told beforehand: the same facts, the same decisions, nothing changed."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.model.policy import Action, Policies, decide
from core.record import lifecycle
from core.record.database import Database

PAGE = 5000
EXAMPLES = 5


@dataclass(slots=True)
class Expected:
    """How many memories of one type an action would come to, and some of their ids."""

    action: Action
    type: str
    memories: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would do to a tenant, by action and type."""

    tenant: str
    expected: list[Expected]


def forecast(database: Database, tenant: str, policies: Policies) -> Forecast:
    """Judge every memory of a tenant as the chores would now, in bounded memory."""
    found: dict[tuple[Action, str], Expected] = {}
    least, after = policies.least_rest(tenant), ""
    while least is not None:
        with database.tenant(tenant) as session:
            facts, now = lifecycle.scan(session, tenant, after, PAGE, least)
        for one in facts:
            action = decide(one, policies.of(tenant, one.type), now)
            if action not in (None, Action.REAP):
                expected = found.setdefault((action, one.type), Expected(action, one.type))
                expected.memories += 1
                if len(expected.examples) < EXAMPLES:
                    expected.examples.append(one.id)
        if len(facts) < PAGE:
            break
        after = facts[-1].id
    with database.tenant(tenant) as session:
        over = lifecycle.over(session, tenant, policies)
    listed = [found[name] for name in sorted(found)]
    return Forecast(tenant, listed + [Expected(Action.REAP, one.type, one.memories, one.examples) for one in over])
