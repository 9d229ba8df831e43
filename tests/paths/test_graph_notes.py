"""Files into the graph: notes and JSON Lines, imported again, changed, moved and gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.assembly import open_engine
from core.engine import Engine
from core.model.graph import Relation
from core.model.memory import Draft
from core.settings import load_settings


@pytest.fixture
def engine(database_url: str, tmp_path: Path) -> Iterator[Engine]:
    home = tmp_path / "home"
    with open_engine(load_settings(home=home, postgres_url=database_url, cache=False)) as opened:
        yield opened


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "people").mkdir(parents=True)
    (folder / "people" / "ada-lovelace.md").write_text("---\ntags: [maths]\n---\nFriend of [[Charles Babbage]].\n")
    (folder / "engine.md").write_text("# Engine\n\nBy [[Charles Babbage]].\n\n# Notes\n\nBy [[Ada Lovelace]].\n")
    return folder


def bring(engine: Engine, notes: Path) -> None:
    (*_, total) = engine.import_notes("t", notes)
    assert (total.problem_count, total.warnings) == (0, [])


def near(engine: Engine, name: str) -> dict[str, str]:
    return {one.entity.name: one.link.type for one in engine.graph.neighbours("t", name)}


def test_links_and_tags_become_relations_and_those_a_note_drops_are_gone(engine: Engine, notes: Path) -> None:
    bring(engine, notes)
    assert near(engine, "Ada Lovelace") == {"Charles Babbage": "links to", "#maths": "tagged", "engine": "links to"}
    assert [one.names for one in engine.graph.paths("t", "engine", "#MATHS")] == [
        ("engine", "Ada Lovelace", "#maths"),
        ("engine", "Charles Babbage", "Ada Lovelace", "#maths"),
    ]
    before = engine.graph.entities("t")
    bring(engine, notes)
    assert engine.graph.entities("t") == before
    (notes / "engine.md").write_text("# Engine\n\nBy [[Charles Babbage]].\n\n# Notes\n\nBy somebody.\n")
    bring(engine, notes)
    assert near(engine, "Ada Lovelace") == {"Charles Babbage": "links to", "#maths": "tagged"}
    assert [one.weight for one in engine.graph.support("t", "engine", "links to", "charles babbage")] == [1.0]
    (notes / "people" / "ada-lovelace.md").unlink()
    bring(engine, notes)
    assert [one.name for one in engine.graph.entities("t")] == ["Charles Babbage", "engine"]


def test_front_matter_that_changes_alone_changes_its_relations(engine: Engine, notes: Path) -> None:
    bring(engine, notes)
    (notes / "people" / "ada-lovelace.md").write_text("---\nup: '[[index]]'\n---\nFriend of [[Charles Babbage]].\n")
    bring(engine, notes)
    assert near(engine, "ada lovelace") == {
        "Charles Babbage": "links to",
        "engine": "links to",
        "index": "parent",
    }


def test_a_note_that_moves_is_the_same_entity(engine: Engine, notes: Path) -> None:
    bring(engine, notes)
    before = engine.graph.entity("t", "Ada Lovelace")
    (notes / "people" / "ada-lovelace.md").rename(notes / "ada-lovelace.md")
    bring(engine, notes)
    assert engine.graph.entity("t", "Ada Lovelace") == before
    assert near(engine, "Ada Lovelace") == {"Charles Babbage": "links to", "#maths": "tagged", "engine": "links to"}


def test_what_is_imported_under_a_merged_name_lands_on_the_one_that_was_kept(engine: Engine, notes: Path) -> None:
    bring(engine, notes)
    engine.graph.merge("t", "Charles Babbage", ["Babbage"])
    (notes / "new.md").write_text("About [[babbage]].")
    bring(engine, notes)
    assert near(engine, "new") == {"Charles Babbage": "links to"}


def test_the_same_notes_in_another_scope_support_the_same_relations_too(engine: Engine, notes: Path) -> None:
    bring(engine, notes)
    list(engine.import_notes("t", notes, "other"))
    assert engine.graph.neighbours("t", "#maths")[0].link.memories == 2


def test_what_a_working_memory_promotes_keeps_its_relations(database_url: str, tmp_path: Path, valkey_url: str) -> None:
    chosen = load_settings(home=tmp_path / "home", postgres_url=database_url, redis_url=valkey_url)
    with open_engine(chosen) as engine:
        draft = Draft(content="x", relations=[Relation(source="Ada", target="Byron", type="child of", weight=2.5)])
        engine.working.append("t", "run", [draft])
        engine.working.promote("t", "run")
        assert near(engine, "ada") == {"Byron": "child of"}
        assert engine.graph.neighbours("t", "ada")[0].link.weight == 2.5


def test_lines_carry_relations_and_a_wrong_one_costs_its_own_line_only(engine: Engine, tmp_path: Path) -> None:
    good = {"source": "Ada", "target": "Byron", "type": "child of", "weight": 2, "target_type": "poet"}
    wrong: list[object] = [
        *("Ada", {"source": "Ada"}, {**good, "since": 1815}, {**good, "weight": 0}, {**good, "target": "a\u0007b"}),
        *({**good, "target": "ADA"}, {**good, "type": "t" * 200}, {**good, "weight": "2"}, ["Ada", "Byron"]),
    ]
    lines = [{"id": "good", "content": "x", "relations": [good, {"source": "Ada", "target": "Babbage"}]}]
    lines += [{"id": f"w{n}", "content": "x", "relations": [one]} for n, one in enumerate(wrong)]
    lines += [{"id": "secret", "content": "x", "sensitive": True, "relations": [good]}]
    lines += [
        {"id": "text", "content": "x", "relations": "Ada"},
        {"id": "many", "content": "x", "relations": [good] * 257},
    ]
    lines += [{"id": "last", "content": "x", "relations": [good]}]
    path = tmp_path / "lines.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    (*_, total) = engine.import_lines("t", path)
    assert total.items["stored"] == 2
    assert total.problem_count == len(lines) - 2
    assert not any("Byron" in reason for _, reason in total.problems)
    link = engine.graph.neighbours("t", "ada", types=["child of"])[0].link
    assert (link.weight, link.memories) == (4.0, 2)
    assert engine.graph.entity("t", "byron").type == "poet"
    path.write_text(json.dumps({"id": "good", "content": "x", "relations": []}))
    engine.graph.relate("t", "good", [Relation(source="Ada", target="Somerville")])
    list(engine.import_lines("t", path))
    assert near(engine, "ada") == {"Byron": "child of", "Somerville": "related to"}
