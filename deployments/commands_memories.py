"""Commands on single memories: add, get, list, search, delete."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from core.assembly import open_engine
from core.errors import NotFound, Refused
from core.model.memory import DEFAULT_IMPORTANCE, DEFAULT_SCOPE, Draft, Memory
from core.model.query import Answer, Filters
from core.record.memories import Place
from core.settings import load_settings
from deployments import options
from deployments.output import first_line, hint, memory_as_dict, say, show_json, show_table

Text = Annotated[str, typer.Argument(metavar="TEXT", help="The text; '-' reads it from standard input.")]
MemoryId = Annotated[str, typer.Argument(metavar="ID", help="The memory's id.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; may be repeated.")]


def add(  # noqa: PLR0913, PLR0917  one parameter an option
    text: Text,
    tenant: options.Tenant,
    memory_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Your own id: the same id again replaces the memory."),
    ] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="A short title.")] = None,
    tags: Tags = None,
    scope: options.Scope = DEFAULT_SCOPE,
    project: options.Project = None,
    agent: options.Agent = None,
    session: options.Session = None,
    role: options.Role = None,
    importance: Annotated[float, typer.Option(metavar="0..1", help="How much it matters.")] = DEFAULT_IMPORTANCE,
    sensitive: Annotated[bool, typer.Option("--sensitive", help="Keep it sealed (see key_provider).")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Keep one memory.

    It is safe as soon as the command ends, and found by search once `memory run embed` has run.

    \b
    Examples:
      memory add "Ana prefers mornings" --tenant clinic --tag preference
      memory add - --tenant clinic --id letter-7 < letter.txt
    """
    draft = Draft(
        content=sys.stdin.read() if text == "-" else text,
        id=memory_id,
        scope=scope or DEFAULT_SCOPE,
        project=project,
        agent=agent,
        session=session,
        role=role,
        title=title,
        tags=tuple(tags or ()),
        importance=importance,
        sensitive=sensitive,
    )
    with open_engine(load_settings()) as engine:
        written = engine.write(tenant, draft)
    if as_json:
        show_json(asdict(written))
        return
    say(f"{written.kept}: {written.id}")
    for place in written.cleaned:
        hint(f"{place}: characters no store can hold were removed")


def get(memory_id: MemoryId, tenant: options.Tenant, as_json: options.AsJson = False) -> None:
    """Show one memory.

    \b
    Example:
      memory get letter-7 --tenant clinic
    """
    with open_engine(load_settings()) as engine:
        memory = engine.get(tenant, memory_id)
    if as_json:
        show_json(memory_as_dict(memory))
        return
    fields = {name: value for name, value in memory_as_dict(memory).items() if name != "content"}
    show_table(["field", "value"], [(name, _text_of(value)) for name, value in fields.items()])
    say("")
    say(memory.content)


def list_memories(
    tenant: options.Tenant,
    scope: options.Scope = None,
    project: options.Project = None,
    session: options.Session = None,
    role: options.Role = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at the most.")] = 50,
    as_json: options.AsJson = False,
) -> None:
    """List memories, newest first.

    \b
    Example:
      memory list --tenant clinic --session hc-ana-cita --limit 20
    """
    place = Place(scope=scope, project=project, session=session, role=role)
    with open_engine(load_settings()) as engine:
        found = engine.list(tenant, place, limit)
    if as_json:
        show_json([memory_as_dict(memory) for memory in found])
        return
    rows = [(memory.created_at, memory.id, memory.role, first_line(memory.content, 70)) for memory in found]
    show_table(["created", "id", "role", "text"], rows)


def search(  # noqa: PLR0913, PLR0917  one parameter an option
    text: Text,
    tenant: options.Tenant,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many answers at the most.")] = 5,
    scope: options.Scope = None,
    project: options.Project = None,
    agent: options.Agent = None,
    session: options.Session = None,
    role: options.Role = None,
    kind: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Such as fact, turn, note.")] = None,
    tags: Tags = None,
    all_tags: Annotated[
        list[str] | None,
        typer.Option("--all-tags", metavar="TAG", help="Must have each of these; may be repeated."),
    ] = None,
    min_importance: Annotated[float | None, typer.Option(metavar="0..1", help="At least this important.")] = None,
    since: Annotated[datetime | None, typer.Option(help="Created at this time (UTC) or later.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Created before this time (UTC).")] = None,
    labels: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="Must have this label; may be repeated.")
    ] = None,
    tier: Annotated[str | None, typer.Option(metavar="TIER", help="warm, cold or archive.")] = None,
    min_score: Annotated[float | None, typer.Option(metavar="SCORE", help="Leave out what scores less.")] = None,
    around: Annotated[int, typer.Option(min=0, max=20, help="Show so many memories on each side of a hit.")] = 0,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each score is made of.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Find the memories nearest to a text, best first.

    \b
    Examples:
      memory search "when does Ana have time?" --tenant clinic
      memory search "deploy rules" --tenant studio --type decision --since 2026-05-01 --json
      memory search "the consent sheet" --tenant clinic --around 2 --explain
    """
    filters = Filters(
        scope=scope,
        project=project,
        agent=agent,
        session=session,
        role=role,
        type=kind,
        tags_any=tuple(tags or ()),
        tags_all=tuple(all_tags or ()),
        min_importance=min_importance,
        created_from=_in_utc(since),
        created_to=_in_utc(until),
        labels=dict(_label(one) for one in labels or ()),
        tier=tier,
    )
    question = sys.stdin.read() if text == "-" else text
    with open_engine(load_settings()) as engine:
        answer = engine.search(tenant, question, limit, filters, around=around, min_score=min_score)
    if as_json:
        show_json(answer_as_dict(answer))
        return
    show_answer(answer)
    if explain:
        explain_answer(answer)


def delete(
    tenant: options.Tenant,
    memory_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The memory's id.")] = None,
    older_than: Annotated[
        int | None, typer.Option(min=1, metavar="DAYS", help="Instead of an id: all created longer ago than this.")
    ] = None,
    session: options.Session = None,
    kind: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="With --older-than: only this type.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Delete one memory, or what is older than so many days: nobody finds it any more from the moment this ends.

    \b
    Examples:
      memory delete letter-7 --tenant clinic
      memory delete --tenant clinic --older-than 365 --type turn
    """
    if (memory_id is None) == (older_than is None) or (older_than is None and (session or kind)):
        raise Refused("give an id, or --older-than with or without --session and --type", where="delete")
    with open_engine(load_settings()) as engine:
        if older_than is not None:
            gone = engine.lifecycle.delete_older(tenant, timedelta(days=older_than), session=session, kind=kind)
            show_json({"deleted": gone}) if as_json else say(f"deleted: {gone}")
            return
        assert memory_id is not None  # noqa: S101  checked above
        if not engine.delete(tenant, memory_id):
            raise NotFound("there is no such memory")
    if as_json:
        show_json({"id": memory_id, "deleted": True})
    else:
        say(f"deleted: {memory_id}")


def answer_as_dict(answer: Answer) -> dict[str, object]:
    """An answer for `--json`."""
    found = [
        {"score": round(one.score, 4), "parts": asdict(one.parts), "memory": memory_as_dict(one.memory)}
        for one in answer.found
    ]
    passages = [
        {"score": one.score, "hits": sorted(one.hits), "memories": [memory_as_dict(memory) for memory in one.memories]}
        for one in answer.passages
    ]
    return {
        "found": found,
        "passages": passages,
        "generation": answer.generation,
        "degraded": answer.degraded,
        "legs": [asdict(leg) for leg in answer.legs],
        "cached": answer.cached,
    }


def show_answer(answer: Answer) -> None:
    """An answer for people: score, id, who and when, first line."""
    for passage in answer.passages:
        for memory in passage.memories:
            mark = f"{passage.score:.3f}" if memory.id in passage.hits else "     "
            say(f"{mark}  {memory.id}  ({said_by(memory)})")
            say(f"       {first_line(memory.content)}")
        say("")
    for one in () if answer.passages else answer.found:
        say(f"{one.score:.3f}  {one.memory.id}  ({said_by(one.memory)})")
        say(f"       {first_line(one.memory.content)}")
    if not answer.found:
        say("nothing found")
    if answer.degraded:
        hint(f"This answer is not complete: {answer.degraded}.")


def explain_answer(answer: Answer) -> None:
    """What each score is made of, and how the legs fared, as tables."""
    names = ("vector", "keyword", "decay", "neighbours", "session", "speaker", "scale", "graph")
    rows = [
        (one.memory.id, f"{one.score:.3f}", *(f"{getattr(one.parts, name):.3f}" for name in names))
        for one in answer.found
    ]
    show_table(["id", "score", *names], rows)
    legs = [(leg.name, leg.hits, f"{leg.milliseconds:.1f}", leg.problem or "") for leg in answer.legs]
    show_table(["leg", "hits", "ms", "why not"], legs or [("kept answer", "", "", "")])


def said_by(memory: Memory) -> str:
    """Who said it, or where it is from, and the day."""
    source = None if memory.source is None else memory.source.path
    who = memory.speaker or source or memory.role or memory.agent or memory.type
    return f"{who}, {memory.created_at:%Y-%m-%d}"


def _label(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals:
        raise Refused("--label takes NAME=VALUE", where="labels")
    return name, value


def _in_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=moment.tzinfo or UTC)


def _text_of(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else value
