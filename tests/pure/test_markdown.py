"""Markdown notes: which files are notes, what a note says, and the chunks it becomes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.write.chunks import quarter_of_bytes
from core.write.gate import admit
from core.write.markdown import drafts_of, find_notes, read_note
from tests.pure.note_inputs import (
    LIMITS,
    OWN_NOTES,
    PUBLIC_NOTES,
    assert_held_in_order,
    chunked,
    drafts,
    note_of,
)


class TestDrafts:
    TEXT = "# A\n\nfirst\n\n# B\n\nsecond\n\n# C\n\nthird\n"

    def test_a_chunk_says_where_it_is_from(self, root: Path) -> None:
        made = drafts(root, self.TEXT, "guides/tea.md")
        assert [draft.position for draft in made] == [0, 1, 2]
        assert {(draft.type, draft.session, draft.title) for draft in made} == {("note", None, "A")}
        path = f"{root.name}/guides/tea.md"
        assert [draft.source and (draft.source.path, draft.source.first_line) for draft in made] == [
            (path, 1),
            (path, 5),
            (path, 9),
        ]
        assert made[0].created_at is None

    def test_the_stem_is_the_title_of_a_note_without_any(self, root: Path) -> None:
        assert drafts(root, "text", "green tea.md")[0].title == "green tea"

    def test_ids_stay_when_other_chunks_change_move_come_or_go(self, root: Path) -> None:
        before = {draft.content: draft.id for draft in drafts(root, self.TEXT)}
        changed = "---\ntags: new\n---\nintro\n\n# C\n\nthird\n\n# A\n\nfirst, edited\n\n# B\n\nsecond\n"
        after = {draft.content: draft.id for draft in drafts(root, changed)}
        for kept in ("# B\n\nsecond", "# C\n\nthird"):
            assert after[kept] == before[kept]
        assert after["# A\n\nfirst, edited"] != before["# A\n\nfirst"]

    def test_ids_depend_on_path_headings_and_text_alone(self, root: Path) -> None:
        (first,) = drafts(root, "# A\n\ntext", "a.md")
        (other,) = drafts(root, "# A\n\ntext", "b.md")
        assert first.id != other.id
        assert first.id == drafts(root, "---\ntitle: T\n---\n\n\n# A\n\ntext", "a.md")[0].id
        nested = drafts(root, "# A\n\nx\n\n## B\n\ntext\n\n# C\n\nx\n\n## B\n\ntext", "a.md")
        assert nested[1].content == nested[3].content
        assert nested[1].id != nested[3].id

    def test_equal_chunks_are_counted(self, root: Path) -> None:
        made = drafts(root, "# A\n\ntext\n\n# A\n\ntext\n\n# A\n\ntext\n")
        assert [str(draft.id).rpartition("-")[2] for draft in made] == ["1", "2", "3"]
        assert len({draft.id for draft in made}) == 3

    def test_ids_are_readable_and_known(self, root: Path) -> None:
        (draft,) = drafts(root, "# A\n\ntext", "guides/tea.md")
        assert re.fullmatch(rf"note:{root.name}/guides/tea\.md#[0-9a-f]{{16}}-1", str(draft.id))

    def test_ids_of_one_note_in_two_scopes_differ(self, root: Path) -> None:
        note = note_of(root, "text")
        made = [drafts_of(note, LIMITS, scope)[0] for scope in ("one", "two")]
        assert [draft.scope for draft in made] == ["one", "two"]
        assert made[0].id != made[1].id


def fences_of(text: str) -> Iterator[str]:
    """Fences found the simple way, for comparison: opening and closing lines at the margin."""
    opened: tuple[str, list[str]] | None = None
    for line in text.split("\n"):
        mark = re.match(r"(`{3,}|~{3,})(.*)", line)
        if opened is None and mark and "`" not in mark[2]:
            opened = (mark[1], [line])
        elif opened is not None:
            opened[1].append(line)
            if mark and not mark[2].strip() and mark[1].startswith(opened[0]):
                yield "\n".join(opened[1])
                opened = None


@pytest.mark.skipif(not PUBLIC_NOTES.is_dir(), reason="the public notes are not here")
@pytest.mark.parametrize("language", ["en", "ja", "ko", "zh"])
def test_public_notes_are_chunked_whole_the_same_each_time(language: str) -> None:
    root = PUBLIC_NOTES / language
    paths = list(find_notes(root))
    assert len(paths) == 87
    checked = 0
    for path in paths:
        note = read_note(root, path)
        assert note.warnings == ()
        made = drafts_of(note, LIMITS)
        assert made == drafts_of(read_note(root, path), LIMITS)
        assert len({draft.id for draft in made}) == len(made)
        assert_held_in_order(note.body, chunked(note.body))
        for draft in made:
            assert quarter_of_bytes(draft.content) <= LIMITS.hard
            assert admit("acme", draft).cleaned == ()
        for block in fences_of(note.body):
            if quarter_of_bytes(block) <= LIMITS.hard:
                assert any(block in draft.content for draft in made), path
                checked += 1
    assert checked > 100


def test_our_own_notes_are_chunked_with_their_front_matter() -> None:
    for path in find_notes(OWN_NOTES):
        note = read_note(OWN_NOTES, path)
        made = drafts_of(note, LIMITS)
        assert made
        assert note.warnings == ()
        for draft in made:
            assert admit("lumen-studio", draft).cleaned == ()
