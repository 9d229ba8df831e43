"""Finding and reading notes, and their front matter."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from core.errors import Refused
from core.model.memory import Draft
from core.write.gate import admit
from core.write.markdown import drafts_of, find_notes, read_note
from tests.pure.note_inputs import (
    LIMITS,
    assert_held_in_order,
    chunked,
    drafts,
    note_of,
)


class TestFindingNotes:
    def test_markdown_files_come_sorted_and_hidden_ones_are_no_notes(self, root: Path) -> None:
        names = ["b.md", "a/z.markdown", "a/b/c.md", "a.md", "UPPER.MD", "ü.md"]
        others = [
            ".DS_Store",
            "a/.DS_Store",
            ".hidden.md",
            ".git/x.md",
            "a/.obsidian/y.md",
            "x.txt",
            "x.md.bak",
            "md",
        ]
        for name in names + others:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("text")
        found = list(find_notes(root))
        assert {path.relative_to(root).as_posix() for path in found} == set(names)
        assert found == sorted(found)

    def test_a_folder_named_like_a_note_is_searched_and_not_read(self, root: Path) -> None:
        (root / "folder.md").mkdir()
        (root / "folder.md" / "note.md").write_text("text")
        assert list(find_notes(root)) == [root / "folder.md" / "note.md"]

    def test_links_are_followed_within_the_root_alone(self, tmp_path: Path) -> None:
        root, outside = tmp_path / "root", tmp_path / "outside"
        for folder in (root / "inner", outside):
            folder.mkdir(parents=True)
            (folder / "note.md").write_text("text")
        (root / "in.md").symlink_to(root / "inner" / "note.md")
        (root / "out.md").symlink_to(outside / "note.md")
        (root / "nowhere.md").symlink_to(outside / "missing.md")
        (root / "out").symlink_to(outside)
        (root / "inner" / "up").symlink_to(root)
        assert list(find_notes(root)) == [root / "in.md", root / "inner" / "note.md"]
        with pytest.raises(Refused) as caught:
            read_note(root, root / "out.md")
        assert caught.value.where == "out.md"
        with pytest.raises(Refused):
            read_note(root, root / ".." / "outside" / "note.md")
        with pytest.raises(Refused):
            read_note(root, outside / "note.md")

    def test_links_in_a_circle_are_listed_with_a_reason(self, root: Path) -> None:
        (root / "a.md").symlink_to(root / "b.md")
        (root / "b.md").symlink_to(root / "a.md")
        for path in find_notes(root):
            with pytest.raises(Refused):
                read_note(root, path)

    def test_a_root_that_is_hidden_or_linked_is_still_the_root(self, tmp_path: Path) -> None:
        (tmp_path / ".notes").mkdir()
        (tmp_path / ".notes" / "a.md").write_text("text")
        (tmp_path / "link").symlink_to(tmp_path / ".notes")
        for root in (tmp_path / ".notes", tmp_path / "link"):
            (path,) = find_notes(root)
            assert read_note(root, path).path == ".notes/a.md"

    def test_a_folder_that_cannot_be_listed_is_reported_by_reading_it(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "closed").mkdir()
        (root / "open.md").write_text("text")
        scan = os.scandir

        def refusing(path: Path) -> Any:
            if Path(path).name == "closed":
                raise PermissionError(13, "Permission denied")
            return scan(path)

        monkeypatch.setattr(os, "scandir", refusing)
        assert list(find_notes(root)) == [root / "closed", root / "open.md"]
        with pytest.raises(Refused) as caught:
            read_note(root, root / "closed")
        assert caught.value.where == "closed"

    def test_a_root_that_is_no_folder_is_refused(self, root: Path) -> None:
        (root / "a.md").write_text("text")
        for path in (root / "missing", root / "a.md"):
            with pytest.raises(Refused):
                list(find_notes(path))


class TestReadingFiles:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"caf\xe9", "not valid UTF-8 at byte 4"),
            (b"fine\n\xff\xfe", "not valid UTF-8"),
            ("# Café\n".encode("utf-16"), "UTF-16"),
            ("# Café\n".encode("utf-16-le"), "UTF-16"),
            ("# Cafe\n".encode("utf-16-be"), "UTF-16"),
            ("予算\n".encode("utf-16-le"), "UTF-8"),
            ("# Cafe\n".encode("utf-32"), "UTF-16"),
            (b"\x89PNG\r\n\x1a\n\x00\x00\x00\x00\x00\x00", "UTF-8"),
            (b"\xed\xa0\xbd lone surrogate", "not valid UTF-8"),
            (b"", "empty"),
            (b"\xef\xbb\xbf", "empty"),
            (b"\r\n \n\t\n", "empty"),
            ("\u200b\u3000\n".encode(), "empty"),
            (b"---\ntitle: only this\n---\n", "empty"),
        ],
    )
    def test_a_file_that_holds_no_note_is_refused_by_its_path_with_the_reason(
        self, root: Path, data: bytes, reason: str
    ) -> None:
        with pytest.raises(Refused) as caught:
            note_of(root, data, "sub/bad.md")
        assert caught.value.where == "sub/bad.md"
        assert reason in str(caught.value)

    def test_the_good_ones_among_bad_ones_are_imported_and_a_rerun_gives_the_same(self, root: Path) -> None:
        for name, data in {
            "a.md": b"# A\n\ntext",
            "latin.md": b"caf\xe9",
            "utf16.md": "x".encode("utf-16"),
            ".DS_Store": b"\x00\x01",
            "zero.md": b"",
            "z.md": b"# Z\n\ntext",
        }.items():
            (root / name).write_bytes(data)

        def run() -> tuple[list[Draft], list[str]]:
            made: list[Draft] = []
            refused: list[str] = []
            for path in find_notes(root):
                try:
                    made += drafts_of(read_note(root, path), LIMITS)
                except Refused as refusal:
                    refused.append(refusal.where)
            return made, refused

        made, refused = run()
        assert [draft.title for draft in made] == ["A", "Z"]
        assert refused == ["latin.md", "utf16.md", "zero.md"]
        assert run() == (made, refused)

    def test_a_missing_or_too_big_file_is_refused(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(Refused) as caught:
            read_note(root, root / "missing.md")
        assert caught.value.where == "missing.md"
        monkeypatch.setattr("core.write.markdown.MAX_NOTE_BYTES", 4)
        assert note_of(root, b"1234").body == "1234"
        with pytest.raises(Refused):
            note_of(root, b"12345")

    def test_a_stray_zero_is_removed_with_a_warning(self, root: Path) -> None:
        note = note_of(root, "# Zero\x00\n\nsome text with one\x00 zero")
        assert note.warnings == ("U+0000 was removed",)
        assert "\x00" not in note.body

    @pytest.mark.parametrize(
        "name",
        ["caf\udce9.md", "a\nb.md", "ü" * 100 + ".md", "/".join(["d" * 200] * 3) + "/x.md"],
    )
    def test_any_name_a_file_system_holds_gives_drafts_that_pass_the_gate(self, root: Path, name: str) -> None:
        (draft,) = drafts(root, "text", name)
        assert draft.id is not None
        assert len(draft.id.encode()) <= 512
        assert admit("acme", draft).cleaned == ()

    def test_names_that_look_the_same_once_cleaned_have_their_own_ids(self, root: Path) -> None:
        ids = {
            drafts(root, "text", name)[0].id
            for name in ("caf\udce9.md", "caf\udce8.md", "caf\ufffd.md", "e\u0301.md", "\u00e9.md")
        }
        assert len(ids) == 5


FRONT = """---
title: Green tea
tags: [tea, 'food, spicy']
date: 2026-05-04
status: done
---
# Tea

Ana prefers green tea.
"""


class TestFrontMatter:
    def test_title_tags_date_and_the_rest_are_read(self, root: Path) -> None:
        (draft,) = drafts(root, FRONT)
        assert draft.title == "Green tea"
        assert draft.tags == ("tea", "food, spicy")
        assert draft.created_at == datetime(2026, 5, 4, tzinfo=UTC)
        assert draft.metadata == {"heading_path": ["Tea"], "front_matter": {"status": "done"}}
        assert draft.content == "# Tea\n\nAna prefers green tea."
        assert draft.source is not None
        assert (draft.source.first_line, draft.source.last_line) == (7, 9)

    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_marks_and_line_ends_change_neither_content_hash_nor_ids_nor_drafts(
        self, root: Path, mark: str, end: str
    ) -> None:
        text = FRONT + "\n## More\n\n```\n# install\n```\n"
        plain, other = note_of(root, text), note_of(root, mark + text.replace("\n", end))
        assert other == plain
        assert drafts_of(other, LIMITS) == drafts_of(plain, LIMITS)

    @pytest.mark.parametrize(
        ("block", "expected"),
        [
            ("date: 2026-05-04", "2026-05-04T00:00Z"),
            ("created: 2026-05-04T10:00:00", "2026-05-04T10:00Z"),
            ("date: 2026-05-04 10:00:00+09:00", "2026-05-04T01:00Z"),
            ("date: 2026-05-04T10:00:00Z", "2026-05-04T10:00Z"),
            ("date: '2026-05-04T10:00+09:00'", "2026-05-04T01:00Z"),
            ("date: '2026-05-04'", "2026-05-04T00:00Z"),
            ("date: soon\ncreated: 2026-05-04", "2026-05-04T00:00Z"),
            ("date:\ncreated: 2026-05-04", "2026-05-04T00:00Z"),
            ("date: 2026-05-04\ncreated: 2020-01-01", "2026-05-04T00:00Z"),
        ],
    )
    def test_dates_in_every_spelling_are_utc(self, root: Path, block: str, expected: str) -> None:
        assert note_of(root, f"---\n{block}\n---\ntext").created_at == datetime.fromisoformat(expected)

    @pytest.mark.parametrize("value", ["soon", "20260504", "[2026]", "true", "0001-01-01T00:00:00+09:00"])
    def test_a_date_that_says_no_time_is_kept_as_metadata_with_a_warning(self, root: Path, value: str) -> None:
        note = note_of(root, f"---\ndate: {value}\ntitle: T\n---\ntext")
        assert (note.created_at, note.title) == (None, "T")
        assert "date" in note.front_matter
        assert len(note.warnings) == 1

    @pytest.mark.parametrize(
        ("tags", "expected"),
        [
            ("[a, b]", ("a", "b")),
            ("a, b ,c", ("a", "b", "c")),
            ("\n  - a\n  - b", ("a", "b")),
            ("a", ("a",)),
            ("[2026, 1.5, 2026-05-04]", ("2026", "1.5", "2026-05-04")),
            ("[a, a, ' a ']", ("a",)),
            ("[]", ()),
            ("", ()),
            ("','", ()),
            ("5", ("5",)),
            ("[it's, 'a|b', x*]", ("it's", "a|b", "x*")),
        ],
    )
    def test_tags_are_a_list_or_one_text_with_commas(self, root: Path, tags: str, expected: tuple[str, ...]) -> None:
        assert note_of(root, f"---\ntags: {tags}\n---\ntext").tags == expected

    @pytest.mark.parametrize("tags", ["[a, [b]]", "[a, true]", "[a, {b: c}]", f"[a, {'x' * 257}]", "[a, '\u200b']"])
    def test_a_tag_that_cannot_be_one_is_left_out_with_a_warning(self, root: Path, tags: str) -> None:
        note = note_of(root, f"---\ntags: {tags}\n---\ntext")
        assert note.tags == ("a",)
        assert len(note.warnings) == 1

    def test_tags_beyond_the_gates_number_are_left_out_with_a_warning(self, root: Path) -> None:
        note = note_of(root, f"---\ntags: {list(range(100))}\n---\ntext")
        assert len(note.tags) == 64
        assert note.warnings

    @pytest.mark.parametrize(
        ("title", "expected"),
        [
            ("2026", "2026"),
            ("2026-05-04", "2026-05-04"),
            ("'a: b'", "a: b"),
            ('"a\\0b"', "ab"),
            ("", "Heading"),
            ("'  '", "Heading"),
            ("[a]", "Heading"),
            ("true", "Heading"),
            (f"0x{'f' * 6000}", "Heading"),
            ("x" * 3000, "x" * 2000),
        ],
    )
    def test_the_title_is_text_or_the_first_heading_stands_for_it(self, root: Path, title: str, expected: str) -> None:
        (draft,) = drafts(root, f"---\ntitle: {title}\n---\n# Heading\n\ntext")
        assert draft.title == expected
        admit("acme", draft)

    @pytest.mark.parametrize(
        "block",
        [
            "---\ntitle: never closed\n\n# Real\n\ntext\n",
            "---\ntitle: a: b\n---\n# Real\n\ntext\n",
            "---\ntitle: [a\n---\n# Real\n\ntext\n",
            "---\n\ttab: x\n---\n# Real\n\ntext\n",
            "---\n- a\n- list\n---\n# Real\n\ntext\n",
            "---\njust words\n---\n# Real\n\ntext\n",
            "---\ndate: 2026-13-45\n---\n# Real\n\ntext\n",
            "---\nx: !!bool maybe\n---\n# Real\n\ntext\n",
            "---\nx: !!timestamp soon\n---\n# Real\n\ntext\n",
            "---\nx: !!int ''\n---\n# Real\n\ntext\n",
            "---\nx: !!python/object/apply:os.system ['true']\n---\n# Real\n\ntext\n",
            "---\na: &a [*b]\n---\n# Real\n\ntext\n",
            "---\n{[a]: b}\n---\n# Real\n\ntext\n",
            "---\nx: " + "[" * 5000 + "\n---\n# Real\n\ntext\n",
            "---\nx: " + "[" * 5000 + "]" * 5000 + "\n---\n# Real\n\ntext\n",
            "---\nx: " + "9" * 5000 + "\n---\n# Real\n\ntext\n",
            "---\nx: " + "y" * 70_000 + "\n---\n# Real\n\ntext\n",
            "---\na: 1\n---\n---\n# Real\n\ntext\n".replace("a: 1\n---", "a 1"),
        ],
    )
    def test_a_block_that_cannot_be_read_stays_in_the_text_with_a_warning(self, root: Path, block: str) -> None:
        note = note_of(root, block)
        assert note.body == block
        assert (note.title, note.tags, note.created_at, note.front_matter) == (None, (), None, {})
        assert len(note.warnings) == 1
        made = drafts_of(note, LIMITS)
        assert made[0].title == "Real"
        assert_held_in_order(block, chunked(block))
        for draft in made:
            admit("acme", draft)

    def test_a_rule_further_down_is_no_front_matter(self, root: Path) -> None:
        text = "text\n---\ntitle: x\n---\n"
        note = note_of(root, text)
        assert (note.body, note.title, note.warnings) == (text, None, ())
        assert note_of(root, "----\ntitle: x\n----\n").warnings == ()

    def test_an_empty_block_is_front_matter_without_keys(self, root: Path) -> None:
        note = note_of(root, "---\n---\ntext")
        assert (note.body, note.first_line, note.warnings) == ("text", 3, ())

    def test_values_json_cannot_say_are_left_out_one_by_one(self, root: Path) -> None:
        block = (
            "a: .nan\nb: !!set {x}\nc: !!binary aGk=\n1: x\ng: 0xfffffffffffffffff\n"
            "d: {e: 2026-05-04, f: [2026-05-04T10:00:00Z]}\nh: fine"
        )
        note = note_of(root, f"---\n{block}\n---\ntext")
        assert note.front_matter == {
            "d": {"e": "2026-05-04", "f": ["2026-05-04T10:00:00+00:00"]},
            "h": "fine",
        }
        assert len(note.warnings) == 5

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize(
        "block",
        [
            "a: &a [x,x,x,x,x,x,x,x,x]\n"
            + "\n".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefghi")),
            "a: &a\n  b: *a",
            "\n".join(f"k{n}: {n}" for n in range(4_000)),
            "big: " + "x" * 30_000,
        ],
    )
    def test_front_matter_without_bounds_is_cut_with_a_warning(self, root: Path, block: str) -> None:
        note = note_of(root, f"---\ntitle: T\n{block}\n---\ntext")
        assert note.title == "T"
        assert note.warnings
        (draft,) = drafts_of(note, LIMITS)
        admit("acme", draft)
