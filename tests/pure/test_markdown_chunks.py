"""Cutting notes into chunks within their limits, with no text lost."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import Misconfigured, Refused
from core.write.chunks import ChunkLimits, quarter_of_bytes
from core.write.gate import admit, is_blank
from tests.pure.note_inputs import (
    LIMITS,
    SMALL,
    assert_held_in_order,
    chunked,
    drafts,
    fence,
    paths_of,
    seen,
)


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
        assert paths_of("# *A* `b` [c](http://x) ![d](e.png) <b>f</b> \\# &amp; #\n\nx") == [["A b c d f # &"]]
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


class TestLimits:
    @pytest.mark.parametrize(("tokens", "overlap"), [(400, 400), (400, 401), (1, 1), (0, 0), (-1, -2), (400, -1)])
    def test_an_overlap_of_the_chunks_size_or_more_is_a_configuration_error(self, tokens: int, overlap: int) -> None:
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
            start = time.process_time()  # what others do on this machine is not counted
            chunked(text)
            return time.process_time() - start

        seconds(10_000)
        small, large = (min(seconds(characters) for _ in range(2)) for characters in (50_000, 400_000))
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
        body = "\n\n\n".join(f"def f{n}():\n" + "".join(f"    x{m} = {m}\n" for m in range(n % 90)) for n in range(200))
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
        st.tuples(st.sampled_from(["# ", "## ", "###### ", "> ", "- ", "1. ", "    ", "| "]), st.text(max_size=20)).map(
            "".join
        ),
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
    def test_chunks_hold_it_all_in_order_each_within_the_hard_limit(self, text: str, limits: tuple[int, int]) -> None:
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
