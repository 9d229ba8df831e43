"""Markdown notes: which files are notes, what a note says, and the chunks it becomes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import Misconfigured, Refused
from core.model.memory import Draft
from core.write.chunks import Chunk, ChunkLimits, chunks_of, quarter_of_bytes
from core.write.gate import admit, is_blank
from core.write.markdown import Note, drafts_of, find_notes, read_note
from core.write.outline import LineIndex, outline_of

LIMITS = ChunkLimits()
SMALL = ChunkLimits(tokens=20, overlap=5)
CHECKOUT = Path(__file__).parents[2]
PUBLIC_NOTES = CHECKOUT.parent / "shared" / "data" / "notes"
OWN_NOTES = CHECKOUT / "data" / "notes"


def chunked(text: str, limits: ChunkLimits = LIMITS) -> list[Chunk]:
    lines = LineIndex(text)
    return list(chunks_of(text, outline_of(text, lines), lines, limits))


def paths_of(text: str, limits: ChunkLimits = LIMITS) -> list[list[str]]:
    return [list(chunk.heading_path) for chunk in chunked(text, limits)]


def seen(text: str) -> str:
    return "".join(character for character in text if not is_blank(character))


def assert_held_in_order(text: str, chunks: list[Chunk]) -> None:
    """Every chunk stands in the text, each begins and ends after the one before, and nothing is lost."""
    begun, ended = -1, 0
    for chunk in chunks:
        end = chunk.start + len(chunk.text)
        assert text[chunk.start : end] == chunk.text
        assert chunk.start > begun
        assert end > ended
        assert is_blank(text[ended : chunk.start])
        begun, ended = chunk.start, end
    assert is_blank(text[ended:])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def note_of(root: Path, data: bytes | str, name: str = "note.md") -> Note:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_note(root, path)


def drafts(root: Path, data: bytes | str, name: str = "note.md", limits: ChunkLimits = LIMITS) -> list[Draft]:
    return drafts_of(note_of(root, data, name), limits)


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
            assert read_note(root, path).path == "a.md"

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
    def test_any_name_a_file_system_holds_gives_drafts_that_pass_the_gate(
        self, root: Path, name: str
    ) -> None:
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
    def test_a_date_that_says_no_time_is_kept_as_metadata_with_a_warning(
        self, root: Path, value: str
    ) -> None:
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
    def test_tags_are_a_list_or_one_text_with_commas(
        self, root: Path, tags: str, expected: tuple[str, ...]
    ) -> None:
        assert note_of(root, f"---\ntags: {tags}\n---\ntext").tags == expected

    @pytest.mark.parametrize(
        "tags", ["[a, [b]]", "[a, true]", "[a, {b: c}]", f"[a, {'x' * 257}]", "[a, '\u200b']"]
    )
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
    def test_the_title_is_text_or_the_first_heading_stands_for_it(
        self, root: Path, title: str, expected: str
    ) -> None:
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
    def test_a_block_that_cannot_be_read_stays_in_the_text_with_a_warning(
        self, root: Path, block: str
    ) -> None:
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


class TestSections:
    def test_each_heading_path_is_a_chunk(self) -> None:
        text = "intro\n\n# A\n\na\n\n## B\n\nb\n\n### C\n\nc\n\n## D\n\nd\n\nE\n=\n\ne\n\nF\n---\n\nf\n"
        assert paths_of(text) == [[], ["A"], ["A", "B"], ["A", "B", "C"], ["A", "D"], ["E"], ["E", "F"]]
        chunks = chunked(text)
        assert [chunk.text for chunk in chunks[:3]] == ["intro", "# A\n\na", "## B\n\nb"]
        assert [(chunk.first_line, chunk.last_line) for chunk in chunks[:3]] == [(1, 1), (3, 5), (7, 9)]
        assert_held_in_order(text, chunks)

    def test_a_heading_with_nothing_under_it_but_a_deeper_one_goes_with_that(self) -> None:
        text = "# A\n\n## B\n\n### C\n\nc\n\n## D\n## E\n\n# F\n"
        chunks = chunked(text)
        assert [(chunk.heading_path, chunk.text) for chunk in chunks] == [
            (("A", "B", "C"), "# A\n\n## B\n\n### C\n\nc"),
            (("A", "D"), "## D"),
            (("A", "E"), "## E"),
            (("F",), "# F"),
        ]

    def test_a_heading_is_named_as_it_is_seen(self) -> None:
        assert paths_of("# *A* `b` [c](http://x) ![d](e.png) <b>f</b> \\# &amp; #\n\nx") == [
            ["A b c d f # &"]
        ]
        assert paths_of("# <br>\n\nx") == [["<br>"]]
        assert paths_of("two\nlines\n===\n\nx") == [["two lines"]]
        assert paths_of("#\n\nx") == [[""]]

    @pytest.mark.parametrize(
        "text",
        [
            "#hashtag\n",
            "    # code\n",
            "- # in a list\n",
            "> # quoted\n",
            "<!--\n# comment\n-->\n",
            "<pre>\n# raw\n</pre>\n",
            "text \\# not\n",
            "a | b\n--- | ---\n1 | 2\n",
        ],
    )
    def test_what_only_looks_like_a_heading_is_none(self, text: str) -> None:
        assert paths_of(f"# H\n\nx\n\n{text}\n\ny") == [["H"]]

    @pytest.mark.parametrize(
        "fence",
        [
            "```sh\n# install\n```",
            "````md\n```\n# install\n```\n````",
            "~~~\n# install\n```\n~~~",
            "```\n# install\n~~~\n# more\n```",
            "   ```\n# install\n   ```",
            "- list\n\n  ```sh\n  # install\n  ```",
            "> ```sh\n> # install\n> ```",
        ],
    )
    def test_a_comment_in_a_fence_is_no_heading(self, fence: str) -> None:
        text = f"# H\n\n{fence}\n\n## After\n\nx\n"
        assert paths_of(text) == [["H"], ["H", "After"]]
        assert fence in chunked(text)[0].text

    @pytest.mark.parametrize("opening", ["```", "````", "~~~", "```sh"])
    def test_a_fence_never_closed_goes_to_the_end(self, opening: str) -> None:
        text = f"# H\n\n{opening}\n# install\n\n# still\n"
        assert paths_of(text) == [["H"]]
        assert_held_in_order(text, chunked(text))

    def test_long_headings_are_cut_in_the_path_and_kept_in_the_text(self, root: Path) -> None:
        heading = "# " + "**x** " * 50_000
        made = drafts(root, heading + "\n\ntext")
        assert len(made[0].metadata["heading_path"][0]) <= 200
        assert heading.strip().endswith(made[-1].content.split("\n")[0][-20:].strip())
        for draft in made:
            admit("acme", draft)


def fence(lines: int, mark: str = "```") -> str:
    return f"{mark}sh\n" + "".join(f"# step {n:04}\n" for n in range(lines)) + mark


class TestLimits:
    @pytest.mark.parametrize(
        ("tokens", "overlap"), [(400, 400), (400, 401), (1, 1), (0, 0), (-1, -2), (400, -1)]
    )
    def test_an_overlap_of_the_chunks_size_or_more_is_a_configuration_error(
        self, tokens: int, overlap: int
    ) -> None:
        with pytest.raises(Misconfigured):
            ChunkLimits(tokens=tokens, overlap=overlap)

    def test_tokens_are_a_quarter_of_the_bytes_rounded_up(self) -> None:
        assert [quarter_of_bytes(text) for text in ("", "a", "aaaa", "aaaaa", "予予")] == [0, 1, 1, 2, 2]

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("prefix", ["Header ", "# Header ", "", "```\n", "- ", "> ", "    "])
    def test_one_word_without_end_is_split_and_loses_nothing(self, prefix: str) -> None:
        text = prefix + "a" * 200_000
        chunks = chunked(text)
        assert all(quarter_of_bytes(chunk.text) <= LIMITS.tokens for chunk in chunks)
        assert len({chunk.heading_path for chunk in chunks}) == 1
        assert_held_in_order(text, chunks)
        # Overlap costs a fifth, windows a little.
        assert len(chunks) < 200_000 / 1600 * 1.5

    @pytest.mark.timeout(60)
    @pytest.mark.parametrize(
        "unit",
        [
            "a",
            "word ",
            "予算",
            "\n\nA paragraph of a few words.",
            "*",
            "[",
            "> ",
            "- x\n",
            "```\n",
            "\u0301",
            "\n",
        ],
    )
    def test_time_is_linear_in_the_text(self, unit: str) -> None:
        def seconds(characters: int) -> float:
            text = "x" + unit * (characters // len(unit))
            start = time.perf_counter()
            chunked(text)
            return time.perf_counter() - start

        seconds(10_000)
        small, large = min(seconds(50_000) for _ in range(2)), seconds(400_000)
        assert large < 8 * 4 * small + 0.2

    def test_text_of_a_section_is_split_with_an_overlap(self) -> None:
        text = "# H\n\n" + " ".join(f"word{n}." for n in range(2_000))
        chunks = chunked(text)
        assert chunks[0].text.startswith("# H\n\nword0.")
        assert {chunk.heading_path for chunk in chunks} == {("H",)}
        assert all(200 < quarter_of_bytes(chunk.text) <= 400 for chunk in chunks[1:-1])
        assert 200 < quarter_of_bytes(chunks[0].text) <= 402
        for before, after in pairwise(chunks):
            shared = next(n for n in range(400, 0, -1) if before.text.endswith(after.text[:n]))
            assert 40 <= quarter_of_bytes(after.text[:shared]) <= 80
        assert_held_in_order(text, chunks)

    def test_without_an_overlap_no_word_is_said_twice(self) -> None:
        text = " ".join(f"word{n}" for n in range(5_000))
        assert seen("".join(chunk.text for chunk in chunked(text, ChunkLimits(overlap=0)))) == seen(text)

    @pytest.mark.parametrize("lines", [60, 200, 480])
    @pytest.mark.parametrize("mark", ["```", "````", "~~~"])
    def test_a_fence_longer_than_a_chunk_stays_whole_under_its_heading(self, lines: int, mark: str) -> None:
        words = " ".join(["word"] * 1_000)
        block = fence(lines, mark)
        text = f"# H\n\n{words}\n\nRun this:\n\n{block}\n\n{words}\n\n## After\n\nx"
        holding = [chunk for chunk in chunked(text) if "# step" in chunk.text]
        assert len(holding) == 1
        assert block in holding[0].text
        assert "Run this:" in holding[0].text
        assert holding[0].heading_path == ("H",)
        assert quarter_of_bytes(holding[0].text) <= LIMITS.hard
        assert_held_in_order(text, chunked(text))

    def test_a_heading_stays_with_the_fence_it_stands_over(self) -> None:
        block = fence(300)
        (chunk,) = chunked(f"# H\n\nRun this:\n\n{block}")
        assert chunk.text == f"# H\n\nRun this:\n\n{block}"

    def test_fences_that_follow_one_another_each_stay_whole(self) -> None:
        blocks = [fence(n) for n in (10, 200, 20, 300, 5, 5, 5)]
        text = "# H\n\n" + "\n\n".join(blocks)
        chunks = chunked(text)
        for block in blocks:
            assert any(block in chunk.text for chunk in chunks)
        assert_held_in_order(text, chunks)

    def test_a_fence_beyond_the_hard_limit_is_split_at_line_ends(self) -> None:
        block = fence(2_000)
        text = f"# H\n\nRun this:\n\n{block}\n\nDone.\n"
        chunks = chunked(text)
        lines = set(text.split("\n"))
        for chunk in chunks:
            assert set(chunk.text.split("\n")) <= lines
            assert quarter_of_bytes(chunk.text) <= LIMITS.tokens
        assert_held_in_order(text, chunks)

    def test_code_with_blank_lines_and_functions_is_split_at_line_ends_too(self) -> None:
        body = "\n\n\n".join(
            f"def f{n}():\n" + "".join(f"    x{m} = {m}\n" for m in range(n % 90)) for n in range(200)
        )
        text = f"```python\n{body}\n```\n"
        lines = set(text.split("\n"))
        for chunk in chunked(text):
            assert set(chunk.text.split("\n")) <= lines
        assert_held_in_order(text, chunked(text))

    def test_the_hard_limit_is_exact(self) -> None:
        fits = "```\n" + "a" * (LIMITS.hard * 4 - 8) + "\n```"
        assert [chunk.text for chunk in chunked(fits)] == [fits]
        assert len(chunked(fits.replace("a\n", "aa\n"))) > 1
        # No room is left for the lines before it.
        assert [chunk.text for chunk in chunked(f"Run this:\n\n{fits}")] == ["Run this:", fits]

    def test_another_estimate_fits(self) -> None:
        words = ChunkLimits(tokens=10, overlap=2, estimate=lambda text: len(text.split()))
        text = "one two three four five six seven eight nine ten " * 20 + "\n\n" + "a" * 10_000
        chunks = chunked(text, words)
        assert all(len(chunk.text.split()) <= 10 for chunk in chunks)
        assert_held_in_order(text, chunks)
        letters = ChunkLimits(tokens=10, overlap=2, estimate=len)
        assert all(len(chunk.text) <= 10 for chunk in chunked(text, letters))

    def test_lines_are_those_of_the_file(self) -> None:
        text = "# H\n\n" + "\n".join(f"line {n:04} of the text" for n in range(3, 1_000))
        lines = text.split("\n")
        for chunk in chunked(text):
            assert "\n".join(lines[chunk.first_line - 1 : chunk.last_line]).find(chunk.text) >= 0
            assert chunk.text.count("\n") == chunk.last_line - chunk.first_line


MARKDOWN = st.lists(
    st.one_of(
        st.text(max_size=80),
        st.integers(1, 200).map(lambda n: "word " * n),
        st.tuples(
            st.sampled_from(["# ", "## ", "###### ", "> ", "- ", "1. ", "    ", "| "]), st.text(max_size=20)
        ).map("".join),
        st.sampled_from(
            [
                "```",
                "````",
                "~~~",
                "```sh",
                "---",
                "===",
                "",
                "\n\n",
                "<!--",
                "-->",
                "<pre>",
                "\t",
                "[a]: b",
                "|-|",
            ]
        ),
        st.integers(1, 300).map(lambda n: "x" * n),
    ),
    max_size=30,
).map("\n".join)
ANY_LIMITS = st.tuples(st.integers(1, 60), st.integers(0, 59)).filter(lambda pair: pair[1] < pair[0])


def clean(text: str) -> str:
    return text.replace("\x00", "").replace("\r", "\n")


class TestAnyText:
    @settings(max_examples=200, deadline=None)
    @given(text=st.text(max_size=2_000) | MARKDOWN, limits=ANY_LIMITS)
    def test_chunks_hold_it_all_in_order_each_within_the_hard_limit(
        self, text: str, limits: tuple[int, int]
    ) -> None:
        text = clean(text)
        within = ChunkLimits(*limits)
        chunks = chunked(text, within)
        assert_held_in_order(text, chunks)
        for chunk in chunks:
            assert quarter_of_bytes(chunk.text) <= within.hard
            assert not is_blank(chunk.text)
            assert 1 <= chunk.first_line <= chunk.last_line <= text.count("\n") + 1

    @settings(max_examples=80, deadline=None)
    @given(
        parts=st.lists(st.integers(1, 60).map("word. ".__mul__) | st.integers(0, 25).map(fence), max_size=12),
        overlap=st.integers(0, 19),
    )
    def test_no_fence_within_the_hard_limit_is_ever_split(self, parts: list[str], overlap: int) -> None:
        limits = ChunkLimits(tokens=20, overlap=overlap)
        chunks = chunked("\n\n".join(parts), limits)
        for part in parts:
            if part.startswith("```") and quarter_of_bytes(part) <= limits.hard:
                assert any(part in chunk.text for chunk in chunks)

    def test_no_chunk_stands_whole_in_the_next(self) -> None:
        chunks = chunked("\n00000000000\n\x80\x80\U00010000", ChunkLimits(tokens=5, overlap=3))
        assert [chunk.text for chunk in chunks] == ["00000000000\n\x80\x80\U00010000"]

    @settings(max_examples=60, deadline=None)
    @given(text=MARKDOWN)
    def test_drafts_pass_the_gate_with_ids_of_their_own(
        self, tmp_path_factory: pytest.TempPathFactory, text: str
    ) -> None:
        root = tmp_path_factory.mktemp("notes")
        try:
            made = drafts(root, text, limits=SMALL)
        except Refused:
            return
        assert len({draft.id for draft in made}) == len(made)
        for draft in made:
            assert admit("acme", draft).draft.content == draft.content


class TestDrafts:
    TEXT = "# A\n\nfirst\n\n# B\n\nsecond\n\n# C\n\nthird\n"

    def test_a_chunk_says_where_it_is_from(self, root: Path) -> None:
        made = drafts(root, self.TEXT, "guides/tea.md")
        assert [draft.position for draft in made] == [0, 1, 2]
        assert {(draft.type, draft.session, draft.title) for draft in made} == {("note", None, "A")}
        assert [draft.source and (draft.source.path, draft.source.first_line) for draft in made] == [
            ("guides/tea.md", 1),
            ("guides/tea.md", 5),
            ("guides/tea.md", 9),
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
        assert re.fullmatch(r"note:guides/tea\.md#[0-9a-f]{16}-1", str(draft.id))


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
