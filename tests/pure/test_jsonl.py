"""JSON Lines: a broken line is reported by its number, and costs no other line."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import Refused
from core.model.memory import Draft
from core.write import jsonl
from core.write.gate import admit
from core.write.jsonl import Line, read_lines

SAMPLES = Path(__file__).parents[2] / "data" / "corpora"
GOOD = b'{"content": "good"}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memories.jsonl"


def lines_of(file: Path, data: bytes) -> list[Line]:
    file.write_bytes(data)
    return list(read_lines(file))


def contents(lines: list[Line]) -> list[str | None]:
    return [None if line.draft is None else line.draft.content for line in lines]


def test_only_a_newline_ends_a_line(file: Path) -> None:
    said = "a\u2028b\u2029c\x85d"
    line = b'{"content": "' + said.encode() + b'"}'
    assert contents(lines_of(file, line + b"\n" + line)) == [said, said]


@pytest.mark.parametrize(
    "data",
    [
        GOOD + b"\n" + GOOD + b"\n",
        GOOD + b"\n" + GOOD,
        GOOD + b"\r\n" + GOOD + b"\r\n",
        b"\xef\xbb\xbf" + GOOD + b"\n" + GOOD,
        b"\xef\xbb\xbf" + GOOD + b"\r\n" + GOOD + b"\r\n",
        b"\n\r\n  \n" + GOOD + b"\n\t\n" + GOOD + b"\n\n",
    ],
)
def test_line_ends_marks_and_blank_lines_of_any_editor_are_taken(file: Path, data: bytes) -> None:
    assert contents(lines_of(file, data)) == ["good", "good"]


def test_lines_are_counted_as_an_editor_counts_them_blank_ones_too(file: Path) -> None:
    assert [line.number for line in lines_of(file, b"\n" + GOOD + b"\n\n\nbroken\n" + GOOD)] == [2, 5, 6]


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n\r\n"])
def test_an_empty_file_has_no_lines(file: Path, data: bytes) -> None:
    assert lines_of(file, data) == []


BROKEN = [
    b'{"content": "secret caf\xe9"}',
    '{"content": "secret"}'.encode("utf-16"),
    b'{"content": "secret"',
    b'{"content": "secret" "x"}',
    b'{"content": "secret\ttab"}',
    b'{"content": "secret\\x"}',
    b'["secret"]',
    b'"secret"',
    b"5",
    b"null",
    b"{}",
    b'{"content": null, "title": "secret"}',
    b'{"content": "secret", "importance": NaN}',
    b'{"content": "secret", "metadata": {"a": [Infinity]}}',
    b'{"content": "secret", "metadata": {"a": -Infinity}}',
    b'{"content": "secret", "tenant": "secret"}',
    b'{"content": "secret", "colour": "secret"}',
    b'{"content": "secret", "content": "secret too"}',
    b'{"content": "secret", "metadata": {"a": 1, "a": 2}}',
    b'{"content": "secret", "created_at": "secret"}',
    b'{"content": "secret", "source": "secret"}',
    b'{"content": "secret"} {"content": "secret"}',
    b'{"content": "secret", "metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"content": "secret", "position": ' + b"9" * 5_000 + b"}",
    b"\x00\x01\x02",
    b"\xef\xbb\xbf" + GOOD,
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_line_is_one_problem_without_its_content_and_the_rest_goes_on(file: Path, broken: bytes) -> None:
    lines = lines_of(file, b"\n".join([GOOD, broken, GOOD]))
    good = [line for line in lines if line.number in (1, lines[-1].number)]
    assert contents(good) == ["good", "good"]
    problems = [line.problem for line in lines if line not in good]
    assert problems
    for problem in problems:
        assert problem
        assert "secret" not in problem


def test_a_key_that_is_no_field_is_named(file: Path) -> None:
    (line,) = lines_of(file, b'{"content": "x", "colour": "red"}')
    assert line.problem is not None
    assert "colour" in line.problem
    (line,) = lines_of(file, b'{"content": "x", "tenant": "other"}')
    assert line.problem is not None
    assert "tenant" in line.problem


def test_1e400_is_left_to_the_gate_which_names_its_path(file: Path) -> None:
    (line,) = lines_of(file, b'{"content": "x", "metadata": {"a": [1e400]}}')
    assert line.draft is not None
    with pytest.raises(Refused) as caught:
        admit("acme", line.draft)
    assert caught.value.where == "metadata.a[0]"


def test_zeros_and_surrogates_come_through_to_the_gate(file: Path) -> None:
    (line,) = lines_of(file, b'{"content": "ok \\ud83d \\u0000 \\ud83d\\ude00"}')
    assert line.draft is not None
    assert admit("acme", line.draft).draft.content == "ok \ufffd  \U0001f600"


class TestLongLines:
    def test_a_line_of_exactly_the_limit_is_read_and_one_byte_more_is_a_problem(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for limit in (len(GOOD) - 1, len(GOOD)):
            monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", limit)
            for end in (b"\n", b"\r\n"):
                lines = lines_of(file, GOOD + end + b"{}" + end)
                assert (lines[0].draft is not None) == (limit == len(GOOD))
                assert [line.number for line in lines] == [1, 2]
            assert (lines_of(file, GOOD)[0].draft is not None) == (limit == len(GOOD))

    def test_the_lines_after_a_long_one_keep_their_numbers(self, file: Path) -> None:
        long = b'{"content": "' + b"a" * (9 * 1024 * 1024) + b'"}'
        lines = lines_of(file, b"\n".join([GOOD, long, GOOD, long]))
        assert [(line.number, line.problem is None) for line in lines] == [
            (1, True),
            (2, False),
            (3, True),
            (4, False),
        ]
        assert "longer" in str(lines[1].problem)

    def test_content_of_a_million_characters_fits_a_line(self, file: Path) -> None:
        (line,) = lines_of(file, json.dumps({"content": "予" * 1_000_000}, ensure_ascii=False).encode())
        assert line.problem is None

    def test_memory_is_bounded_by_one_line(self, file: Path) -> None:
        with file.open("wb") as out:
            for _ in range(20_000):
                out.write(b'{"content": "' + b"a" * 1_000 + b'"}\n')
            out.write(b"a" * 30_000_000)
        tracemalloc.start()
        count = sum(1 for _ in read_lines(file))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == 20_001
        assert peak < 16_000_000


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.jsonl", tmp_path):
        with pytest.raises(Refused) as caught:
            next(read_lines(path))
        assert caught.value.where == str(path)


FIELDS = st.fixed_dictionaries(
    {"content": st.text(min_size=1)}, optional={"title": st.text(), "tags": st.lists(st.text())}
)


@settings(max_examples=60, deadline=None)
@given(given_objects=st.lists(FIELDS, max_size=5), ascii_only=st.booleans(), end=st.sampled_from(["\n", "\r\n"]))
def test_any_texts_written_as_json_lines_come_back(
    tmp_path_factory: pytest.TempPathFactory, given_objects: list[dict[str, Any]], ascii_only: bool, end: str
) -> None:
    file = tmp_path_factory.mktemp("lines") / "any.jsonl"
    data = "".join(json.dumps(each, ensure_ascii=ascii_only) + end for each in given_objects)
    lines = lines_of(file, data.encode())
    assert [line.draft for line in lines] == [Draft(**each) for each in given_objects]


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_at_all_give_lines_and_never_another_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    for line in lines_of(tmp_path_factory.mktemp("bytes") / "any.jsonl", data):
        assert (line.draft is None) != (line.problem is None)


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_sample_corpora_are_read_without_a_problem_and_pass_the_gate(sample: Path) -> None:
    for line in read_lines(sample):
        assert line.draft is not None, line.problem
        assert admit(sample.stem, line.draft).cleaned == ()
