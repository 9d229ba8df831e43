"""What notes say of how things are related: links outside of code, tags and front matter, each by its chunk."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model.graph import MAX_RELATIONS, fold_name
from core.model.memory import Draft
from core.write.gate import admit
from core.write.markdown import Note, drafts_of
from tests.pure.note_inputs import LIMITS, SMALL, drafts, fence, note_of

Told = set[tuple[str, str, str]]


def told(found: list[Draft]) -> Told:
    for draft in found:
        admit("t", draft)
    return {(one.source, one.type, one.target) for draft in found for one in draft.relations}


def targets(root: Path, text: str, name: str = "own.md") -> set[str]:
    return {target for _, _, target in told(drafts(root, text, name))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see [[Ada Lovelace]] and [[Byron|the poet]]", {"Ada Lovelace", "Byron"}),
        ("[[Ada#Childhood]], [[Byron#Works|works]], [[Cecil#^block]]", {"Ada", "Byron", "Cecil"}),
        ("![[Ada]] and ![[engine.png]]", {"Ada", "engine.png"}),
        ("[[people/Ada.md]], [[ Byron ]]", {"Ada", "Byron"}),
        ("[[projects/index]] is not [[index]]", {"projects/index", "index"}),
        ("`[[code]]` and ``[[co`de]]`` but [[Ada]]", {"Ada"}),
        ("a \\[[not]] b [[Ada]]", {"Ada"}),
        ("```\n[[code]]\n```\n[[Ada]]", {"Ada"}),
        ("~~~~\n```\n[[code]]\n~~~~\n[[Ada]]", {"Ada"}),
        ("[[Ada]]\n\n````\n[[never closed]]\n```\n[[still code]]", {"Ada"}),
        ("    [[indented code]]\n\n- [[Ada]]\n  - [[Byron]]\n> [[Cecil]]", {"Ada", "Byron", "Cecil"}),
        ("| a | b |\n|---|---|\n| [[Ada\\|shown]] | `[[x\\|y]]` |", {"Ada"}),
        ("# About [[Ada]]\n\ntext", {"Ada"}),
        ("[[]], [[ ]], [[#only a heading]], [[broken\nlink]], [[open", set()),
        ("[[[Ada]]] and [[own]] and [[OWN]]", {"Ada"}),
        ("関連: [[予算]]、[[ＡＤＡ]]", {"予算", "ＡＤＡ"}),
    ],
)
def test_links_are_found_in_text_and_not_in_code(tmp_path: Path, text: str, expected: set[str]) -> None:
    assert targets(tmp_path, text) == expected


def test_links_embeds_tags_and_front_matter_have_types_of_their_own(tmp_path: Path) -> None:
    text = (
        "---\ntitle: The engine\ntags: [maths, '#history']\naliases: [Difference Engine]\n"
        "people: [Ada, '[[Byron|B]]']\nrelated: [[Loom]]\nbuilt-by: '[[Babbage]]'\nstatus: done\n"
        "up: [[index]]\nnumber: 3\n---\nWith [[Ada]], [[ada]] and ![[drawing.png]]."
    )
    found = drafts(tmp_path, text, "engine.md")
    assert {(kind, target) for _, kind, target in told(found)} == {
        ("tagged", "#maths"),
        ("tagged", "#history"),
        ("also called", "The engine"),
        ("also called", "Difference Engine"),
        ("people", "Ada"),
        ("people", "Byron"),
        ("related to", "Loom"),
        ("parent", "index"),
        ("built by", "Babbage"),
        ("links to", "Ada"),
        ("links to", "ada"),
        ("embeds", "drawing.png"),
    }
    assert {one.source for one in found[0].relations} == {"engine"}
    assert {one.target_type for one in found[0].relations if one.type == "tagged"} == {"tag"}


def test_a_link_is_supported_by_the_chunk_it_stands_in_and_front_matter_by_the_first(tmp_path: Path) -> None:
    text = "---\ntags: [x]\n---\n# One\n\n[[Ada]] [[Ada]]\n\n# Two\n\n[[Byron]]\n\n# Three\n\nnobody\n"
    by_chunk = [{one.target: one.weight for one in draft.relations} for draft in drafts(tmp_path, text, "n.md")]
    assert by_chunk == [{"Ada": 2.0, "#x": 1.0}, {"Byron": 1.0}, {}]


@pytest.mark.parametrize(
    ("name", "own"),
    [("ada-lovelace.md", "ada-lovelace"), ("a/b/c.markdown", "c"), ("projects/README.md", "projects/README")],
)
def test_a_note_is_the_entity_of_its_files_name(tmp_path: Path, name: str, own: str) -> None:
    assert {one.source for one in drafts(tmp_path, "[[x]]", name)[0].relations} == {own}


def test_what_can_be_no_relation_is_left_out_with_a_warning(tmp_path: Path) -> None:
    many = " ".join(f"[[n{n}]]" for n in range(MAX_RELATIONS + 5))
    warnings: list[str] = []
    note = note_of(tmp_path, f"[[{'long ' * 200}]] [[Ada]]\n\n# Many\n\n{fence(3)}\n", "n.md")
    found = drafts_of(note, LIMITS, warnings=warnings)
    assert told(found) == {("n", "links to", "Ada")}
    assert len(warnings) == 1
    assert "512 bytes" in warnings[0]
    assert "long" not in warnings[0]
    warnings.clear()
    wide = drafts_of(note_of(tmp_path, many, "m.md"), type(LIMITS)(tokens=4000, overlap=0), warnings=warnings)
    assert (len(wide[0].relations), len(warnings)) == (MAX_RELATIONS, 1)


PIECES = st.lists(
    st.sampled_from(["[[Ada]]", "[[Byron|x]]", "`[[Ada]]`", "word", "\n\n", "# H\n\n", "```\n[[x]]\n```\n", "wörter "]),
    max_size=40,
)


@given(pieces=PIECES)
def test_every_link_has_a_chunk_that_supports_it(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    text = "seen " + " ".join(pieces)
    small, large = (
        Counter(one.target for draft in drafts_of(_note(tmp_path_factory, text), limits) for one in draft.relations)
        for limits in (SMALL, LIMITS)
    )
    assert small.keys() == large.keys()


def _note(factory: pytest.TempPathFactory, text: str) -> Note:
    return note_of(factory.getbasetemp(), text, "n.md")


def test_folding_is_the_same_done_twice() -> None:
    for name in ("Ada-Lovelace", "  ÉCOLE  normale ", "-5", "C++", "_x_", "\u0301", "a--b__c", "日本 語"):
        assert fold_name(fold_name(name)) == fold_name(name)
    assert fold_name("\u0301")
