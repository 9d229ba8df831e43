"""The text gate: the one way in, for a write, an update, a bulk, a file and a restore alike.

What no store can hold is mended and reported (U+0000, lone surrogates, zones of times); what breaks a
rule is refused with its path. Nothing else is changed: texts are neither trimmed nor normalised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from core.errors import Refused
from core.model.memory import Draft, Source
from core.model.names import index_group
from core.write import fields as rules
from core.write.fields import Rule
from core.write.json_values import json_object, path_of
from core.write.relations import relation_of, relations
from core.write.text import Cleaner, clean_text, has_controls, is_blank

__all__ = [
    "Admitted",
    "AdmittedChanges",
    "admit",
    "admit_changes",
    "admit_id",
    "admit_tenant",
    "clean_text",
    "draft_of",
    "is_blank",
]

_RULES: Mapping[str, Rule] = {
    "content": rules.content,
    "id": rules.optional(rules.identifier),
    "subject": rules.optional(rules.name),
    "scope": rules.name,
    "project": rules.optional(rules.name),
    "agent": rules.optional(rules.name),
    "session": rules.optional(rules.name),
    "position": rules.optional(rules.position),
    "speaker": rules.optional(rules.name),
    "role": rules.optional(rules.name),
    "type": rules.name,
    "title": rules.optional(rules.title),
    "tags": rules.tags,
    "labels": rules.labels,
    "metadata": json_object,
    "importance": rules.importance,
    "source": rules.optional(rules.source),
    "expires_at": rules.optional(rules.moment),
    "created_at": rules.optional(rules.moment),
    "sensitive": rules.flag,
    "relations": relations,
}
_TIMES = ("expires_at", "created_at")
_SOURCE_KEYS = frozenset(field.name for field in fields(Source))
# What None means in an update. A memory always has a value in the fields that are in neither.
_MAY_BE_NONE = frozenset(
    {"subject", "project", "agent", "session", "position", "speaker", "role", "title", "source", "expires_at"}
)
_EMPTY: Mapping[str, Callable[[], object]] = {"tags": tuple, "labels": dict, "metadata": dict, "relations": tuple}


@dataclass(frozen=True, slots=True)
class Admitted:
    """A draft fit to be stored, and the paths of the texts that had to be cleaned for it."""

    draft: Draft
    cleaned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdmittedChanges:
    """Changes fit to be stored, by field, and the paths of the texts that had to be cleaned for it."""

    changes: Mapping[str, Any]
    cleaned: tuple[str, ...]


def admit(tenant: str, draft: Draft) -> Admitted:
    """The draft as it may be stored: texts cleaned, times aware in UTC, tags a tuple, metadata plain JSON.

    Admitting its result again changes nothing. Raises Refused, with the path of the offender in
    `where`, for whatever breaks a rule, wrong types included; blank content has `reason` "empty".
    """
    admit_tenant(tenant)
    if not isinstance(draft, Draft):
        raise Refused(f"a Draft is needed, not {type(draft).__name__}")
    cleaner = Cleaner()
    values = {field: rule(getattr(draft, field), field, cleaner) for field, rule in _RULES.items()}
    return Admitted(names_in_the_clear(Draft(**values)), cleaner.changed)


def names_in_the_clear(draft: Draft) -> Draft:
    """The draft. Raises Refused for one that is sensitive and has relations, whose names would tell of it."""
    if draft.sensitive and draft.relations:
        raise Refused("a sensitive memory supports no relations: names are kept in the clear", where="relations")
    return draft


def admit_changes(changes: Mapping[str, Any]) -> AdmittedChanges:
    """Changes to a stored memory, under the rules of `admit`; times may also be ISO 8601 text.

    None clears an optional field, and empties tags, labels and metadata. Raises Refused for a key
    that is no field of a Draft or that cannot change (`id`), for None where a value is needed, and
    for what `admit` refuses.
    """
    given = _parsed(changes)
    if "id" in given:
        raise Refused("the id of a memory cannot be changed", where="id")
    cleaner = Cleaner()
    admitted = {field: _change(field, value, cleaner) for field, value in given.items()}
    return AdmittedChanges(admitted, cleaner.changed)


def admit_tenant(tenant: str) -> str:
    """The tenant, unchanged. Raises Refused unless it is a name every store can hold as it stands."""
    if not isinstance(tenant, str):
        raise Refused("tenant must be text", where="tenant")
    if is_blank(tenant):
        raise Refused("tenant must not be blank", where="tenant")
    # Mending it could turn one tenant into another.
    if has_controls(tenant) or clean_text(tenant) != tenant:
        raise Refused("tenant must not hold control characters or surrogates", where="tenant")
    index_group(tenant)
    return tenant


def admit_id(memory_id: str) -> str:
    """The id of a memory as it is stored. Raises Refused when no memory can have it."""
    return str(rules.identifier(memory_id, "id", Cleaner()))


def draft_of(given: Mapping[str, Any]) -> Draft:
    """The draft that parsed JSON describes; `admit` still has to judge its values.

    Times are ISO 8601 text, `source` an object of path, first_line and last_line; null is the same as
    not given. Raises Refused, naming the key, for keys that are no field of a Draft (a tenant is
    never part of one), for times and sources it cannot read, and when `content` is missing.
    """
    values = {field: value for field, value in _parsed(given).items() if value is not None}
    if "content" not in values:
        raise Refused("content is missing", where="content")
    return Draft(**values)


def _parsed(given: Mapping[Any, Any]) -> dict[str, Any]:
    """The fields by name, times and source turned from what JSON says into what a Draft holds."""
    if not isinstance(given, Mapping):
        raise Refused("a memory is a JSON object")
    for field in given:
        if field not in _RULES:
            shown = path_of("", field)[1:] if isinstance(field, str) else type(field).__name__
            raise Refused(f"a memory has no field {shown!r}", where=shown)
    return {field: _read(field, value) for field, value in given.items()}


def _read(field: str, value: Any) -> Any:
    if field in _TIMES and isinstance(value, str):
        return rules.parsed_moment(value, field)
    if field == "source" and value is not None and not isinstance(value, Source):
        return _source(value)
    if field == "relations" and isinstance(value, list | tuple):
        return [relation_of(one, f"relations[{number}]") for number, one in enumerate(value)]
    return value


def _source(given: object) -> Source:
    if not isinstance(given, Mapping) or set(given) != _SOURCE_KEYS:
        raise Refused("source takes path, first_line and last_line, and nothing else", where="source")
    return Source(**given)


def _change(field: str, value: Any, cleaner: Cleaner) -> Any:
    if value is not None:
        return _RULES[field](value, field, cleaner)
    if field in _EMPTY:
        return _EMPTY[field]()
    if field not in _MAY_BE_NONE:
        raise Refused(f"{field} cannot be cleared: a memory always has one", where=field)
    return None
