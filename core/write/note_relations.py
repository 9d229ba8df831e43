"""What a Markdown note says of how things are related: its `[[links]]`, its tags and its front matter.

The note's own entity bears its file's name. A link in the text is supported by the chunk it stands in; what the front
matter says, by the first chunk. How keys become types of relations is told in the README.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from core.errors import Refused
from core.model.graph import MAX_RELATIONS, Relation, fold_name
from core.write import relations as rules
from core.write.chunks import Chunk
from core.write.outline import Wikilink, links_in
from core.write.text import Cleaner, is_blank

NOTE, TAG = "note", "tag"
LINKS, EMBEDS, TAGGED, CALLED = "links to", "embeds", "tagged", "also called"
# Keys whose values name entities also without brackets, and the type of relation each gives. Of any other key only
# what stands in [[brackets]] does, and the type is the key.
KEYS = {
    **dict.fromkeys(("alias", "aliases"), CALLED),
    **dict.fromkeys(("link", "links"), LINKS),
    **dict.fromkeys(("author", "authors"), "author"),
    **dict.fromkeys(("person", "people", "participants", "attendees"), "people"),
    **dict.fromkeys(("related", "see", "see also"), "related to"),
    **dict.fromkeys(("parent", "up"), "parent"),
    **dict.fromkeys(("project", "projects"), "project"),
    **dict.fromkeys(("topic", "topics"), "topic"),
}
# Every folder has one of these: the folder's name tells them apart.
_COMMON = frozenset({"index", "readme"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a note says of itself. `path` begins with the name of the folder of notes."""

    path: str
    title: str | None
    tags: Sequence[str]
    front_matter: Mapping[str, Any]


def relations_of(
    said: Said, links: Sequence[Wikilink], chunks: Sequence[Chunk], warnings: list[str]
) -> list[tuple[Relation, ...]]:
    """For each chunk of a note the relations it supports; what cannot be one is left out, with a warning."""
    own = entity_of(PurePosixPath(said.path).with_suffix("").parts[1:])
    found: list[Counter[tuple[str, str]]] = [Counter() for _ in chunks]
    starts = [chunk.start for chunk in chunks]
    for link in links:
        number = bisect_right(starts, link.start) - 1
        # Where chunks overlap, a link stands in both.
        while number >= 0 and link.start < starts[number] + len(chunks[number].text):
            found[number][EMBEDS if link.embeds else LINKS, _of_link(link.target)] += 1
            number -= 1
    if found:
        found[0].update(_of_front_matter(said))
    return [_admitted(own, one, warnings) for one in found]


def entity_of(parts: Sequence[str]) -> str:
    """The name of a note by its path within the folder, or by a link to it: the file's, without its ending."""
    if len(parts) > 1 and parts[-1].casefold() in _COMMON:
        return "/".join(parts[-2:])
    return parts[-1]


def _of_link(target: str) -> str:
    parts = [part for part in target.split("/") if part.strip(" .")]
    return entity_of(parts) if parts else target


def _of_front_matter(said: Said) -> Iterator[tuple[str, str]]:
    for tag in said.tags:
        yield TAGGED, f"#{tag.removeprefix('#')}"
    if said.title is not None:
        yield CALLED, said.title
    for key, value in said.front_matter.items():
        named = " ".join(key.replace("_", " ").replace("-", " ").casefold().split())
        kind = KEYS.get(named)
        for name in _names(value, plain=kind is not None):
            yield kind or named, name


def _names(value: object, *, plain: bool) -> Iterator[str]:
    """The names a value gives: of its [[links]], and of its whole texts if these count as names."""
    if isinstance(value, str):
        links = links_in(value)
        if links or not plain:
            yield from map(_of_link, links)
        elif not is_blank(value):
            yield value
        return
    if not isinstance(value, list):
        return
    for item in value:
        # YAML reads [[Ada]] without quotes as a list in a list.
        bare = isinstance(item, list) and len(item) == 1 and len(value) == 1
        yield from _names(item, plain=plain or bare)


def _admitted(own: str, found: Counter[tuple[str, str]], warnings: list[str]) -> tuple[Relation, ...]:
    made: list[Relation] = []
    for (kind, name), count in found.items():
        if fold_name(name.strip()) == fold_name(own):
            continue
        target_type = TAG if kind == TAGGED else None
        given = Relation(
            source=own, source_type=NOTE, type=kind, target=name, target_type=target_type, weight=float(count)
        )
        try:
            made += rules.relations([given], "relations", Cleaner())
        except Refused as refusal:
            warnings.append(f"a relation is left out: {refusal.message}")
    if len(made) > MAX_RELATIONS:
        warnings.append(f"of a chunk {MAX_RELATIONS} relations are kept; {len(made) - MAX_RELATIONS} are left out")
    return tuple(made[:MAX_RELATIONS])
