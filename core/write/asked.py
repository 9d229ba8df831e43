"""What is asked goes through the gate as well: what no store can hold would break a query, not only a row."""

from __future__ import annotations

from dataclasses import asdict, replace

from core.errors import Refused
from core.model.query import Filters
from core.record.memories import Place
from core.write import fields as rules
from core.write.fields import Rule
from core.write.text import Cleaner, clean_text, is_blank

_FILTERS: dict[str, Rule] = {
    **dict.fromkeys(("scope", "project", "agent", "session", "role", "type"), rules.optional(rules.name)),
    **dict.fromkeys(("tags_any", "tags_all"), rules.tags),
    "labels": rules.labels,
    "tier": rules.optional(rules.tier),
    "min_importance": rules.optional(rules.importance),
    **dict.fromkeys(("created_from", "created_to"), rules.optional(rules.moment)),
}


def admit_query(text: str) -> str:
    """A search text, cleaned. Raises Refused for a blank one: there is nothing to look for."""
    if not isinstance(text, str):
        raise Refused("a search text must be text", where="text")
    cleaned = clean_text(text)
    if is_blank(cleaned):
        raise Refused("a search text must not be blank", where="text")
    return cleaned


def admit_filters(filters: Filters) -> Filters:
    """Filters with texts as a memory would have them. Raises Refused, naming the field, for what none can have."""
    cleaner = Cleaner()
    return Filters(**{field: rule(getattr(filters, field), field, cleaner) for field, rule in _FILTERS.items()})


def admit_place(place: Place) -> Place:
    """A place with texts as a memory would have them. Raises Refused, naming the field, for what none can have."""
    cleaner = Cleaner()
    named = {field: value for field, value in asdict(place).items() if value is not None}
    return replace(place, **{field: rules.name(value, field, cleaner) for field, value in named.items()})
