"""The text gate on metadata, numbers and times."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest

from core.model.memory import Source
from core.write.gate import admit
from tests.pure.draft_inputs import (
    TENANT,
    admitted,
    draft,
    refusal,
)


class TestMetadata:
    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, float("1e400"), np.float64("nan")])
    def test_a_number_that_json_cannot_say_is_refused_by_its_path_however_deep(self, bad: float) -> None:
        error = refusal(metadata={"a": [0, 1, 2, {"b": bad}]})
        assert error.where == "metadata.a[3].b"
        assert "metadata.a[3].b" in str(error)

    @pytest.mark.parametrize("text", ['{"a": [1, NaN]}', '{"a": [1, Infinity]}', '{"a": [1, 1e400]}'])
    def test_numbers_that_pythons_json_lets_through_are_refused(self, text: str) -> None:
        assert refusal(metadata=json.loads(text)).where == "metadata.a[1]"

    @pytest.mark.parametrize(
        "metadata",
        [
            {"a\x00b": 1, "ab": 2},
            {"ab": 1, "a\x00b": 2},
            dict(zip(("\ud83d", "\ude00"), (1, 2), strict=True)),
            {"\ud83d\ude00": 1, "😀": 2},
        ],
    )
    def test_keys_that_would_fall_together_are_refused_at_every_depth(self, metadata: dict[str, int]) -> None:
        assert refusal(metadata=metadata).where.startswith("metadata.")
        assert refusal(metadata={"x": [metadata]}).where.startswith("metadata.x[0].")

    def test_texts_and_keys_are_mended_and_reported_by_their_paths(self) -> None:
        result = admit(TENANT, draft(metadata={"a": ["x", "y", "z\x00"], "k\x00": {"b": "\ud83d"}}))
        assert result.draft.metadata == {"a": ["x", "y", "z"], "k": {"b": "\ufffd"}}
        assert result.cleaned == ("metadata.a[2]", "metadata.k", "metadata.k.b")

    @pytest.mark.parametrize(
        ("metadata", "where"),
        [
            ([1], "metadata"),
            ("{}", "metadata"),
            (None, "metadata"),
            ({1: 2}, "metadata"),
            ({None: 2}, "metadata"),
            ({"a": {("t",): 2}}, "metadata.a"),
            ({"a": {1, 2}}, "metadata.a"),
            ({"a": b"x"}, "metadata.a"),
            ({"a": object()}, "metadata.a"),
            ({"a": datetime.now(UTC)}, "metadata.a"),
            ({"a": 2**63}, "metadata.a"),
            ({"a": [-(2**63) - 1]}, "metadata.a[0]"),
            ({"a": 10**5000}, "metadata.a"),
            ({"a": 1j}, "metadata.a"),
            ({"a": np.int64(3)}, "metadata.a"),
            ({"a": np.array([1])}, "metadata.a"),
        ],
    )
    def test_what_is_no_json_object_is_refused_by_its_path(self, metadata: Any, where: str) -> None:
        assert refusal(metadata=metadata).where == where

    def test_json_is_kept_as_it_is(self) -> None:
        value = {
            "n": None,
            "t": True,
            "i": 2**63 - 1,
            "j": -(2**63),
            "f": 1.5,
            "s": "é",
            "l": [1, [2]],
            "o": {"": {}},
        }
        result = admit(TENANT, draft(metadata=value))
        assert result.draft.metadata == value
        assert result.draft.metadata["t"] is True
        assert result.cleaned == ()

    def test_tuples_become_lists_and_subclasses_plain(self) -> None:
        metadata = admitted(metadata={"a": (1, np.float64(2.5))}).metadata
        assert metadata == {"a": [1, 2.5]}
        assert type(metadata["a"][1]) is float

    def test_nesting_is_bounded(self) -> None:
        value: Any = "deep"
        for _ in range(31):
            value = [value]
        assert admitted(metadata={"a": value})
        assert refusal(metadata={"a": [value]}).where.startswith("metadata.a[0]")
        value = {}
        for _ in range(5000):
            value = {"a": value}
        assert refusal(metadata=value)

    def test_an_object_that_holds_itself_is_refused(self) -> None:
        value: dict[str, Any] = {}
        value["self"] = value
        assert refusal(metadata=value)

    def test_size_is_bounded_in_bytes_of_json(self) -> None:
        room = 256 * 1024 - len('{"a":""}')
        assert admitted(metadata={"a": "x" * room})
        assert refusal(metadata={"a": "x" * (room + 1)}).where == "metadata"
        assert refusal(metadata={"a": "予" * (room // 3 + 1)}).where == "metadata"
        assert refusal(metadata={"a": '"' * (room // 2 + 1)}).where == "metadata"

    @pytest.mark.timeout(5)
    def test_shared_parts_that_unfold_without_end_are_refused_at_once(self) -> None:
        value: Any = ["lol"] * 10
        for _ in range(28):
            value = [value] * 10
        assert refusal(metadata={"a": value}).where == "metadata"

    def test_a_path_is_printable_whatever_the_key(self) -> None:
        error = refusal(metadata={"\ud83d" + "k" * 500: math.nan})
        error.where.encode()
        assert len(error.where) < 100


class TestNumbersAndTimes:
    @pytest.mark.parametrize("value", [0, 1, 0.0, 0.5, 1.0, -0.0, np.float64(0.25)])
    def test_importance_within_0_and_1_is_a_plain_float(self, value: float) -> None:
        importance = admitted(importance=value).importance
        assert importance == value
        assert type(importance) is float
        assert math.copysign(1, importance) == 1

    @pytest.mark.parametrize(
        "value", [math.nan, math.inf, -math.inf, 1.0000001, -0.1, 2, 10**400, True, False, "0.5", None, [0.5]]
    )
    def test_any_other_importance_is_refused(self, value: Any) -> None:
        assert refusal(importance=value).where == "importance"

    @pytest.mark.parametrize("value", [0, -1, 2**63 - 1, -(2**63), None])
    def test_position_is_an_integer_of_64_bits(self, value: int | None) -> None:
        assert admitted(position=value).position == value

    @pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 1.0, True, "1", math.nan])
    def test_any_other_position_is_refused(self, value: Any) -> None:
        assert refusal(position=value).where == "position"

    @pytest.mark.parametrize("field", ["created_at", "expires_at"])
    def test_naive_z_and_offset_times_become_utc_and_can_be_ordered(self, field: str) -> None:
        naive = datetime(2026, 3, 1, 9)
        tokyo = datetime(2026, 3, 1, 9, tzinfo=timezone(timedelta(hours=9)))
        values = [getattr(admitted(**{field: value}), field) for value in (naive, tokyo, naive.replace(tzinfo=UTC))]
        assert [value.tzinfo for value in values] == [UTC] * 3
        assert sorted(values) == [
            datetime(2026, 3, 1, 0, tzinfo=UTC),
            *[datetime(2026, 3, 1, 9, tzinfo=UTC)] * 2,
        ]

    def test_a_subclass_of_datetime_becomes_plain(self) -> None:
        moment = admitted(created_at=pd.Timestamp("2026-03-01T09:00+09:00")).created_at
        assert type(moment) is datetime
        assert moment == datetime(2026, 3, 1, tzinfo=UTC)

    @pytest.mark.parametrize(
        "value",
        [
            "2026-03-01",
            1_700_000_000,
            date(2026, 3, 1),
            pd.NaT,
            True,
            datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9))),
            datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-9))),
        ],
    )
    def test_what_is_no_time_of_utc_is_refused(self, value: Any) -> None:
        assert refusal(created_at=value).where == "created_at"
        assert refusal(expires_at=value).where == "expires_at"

    def test_a_source_is_a_path_and_lines_that_count_upwards(self) -> None:
        source = Source(path="a/b.md", first_line=1, last_line=1)
        assert admitted(source=source).source == source
        result = admit(TENANT, draft(source=replace(source, path="caf\udce9.md")))
        assert result.draft.source == replace(source, path="caf\ufffd.md")
        assert result.cleaned == ("source.path",)
        for bad in ({"first_line": 0}, {"last_line": 0}, {"first_line": True}, {"path": ""}, {"path": None}):
            assert refusal(source=replace(source, **bad)).where.startswith("source.")
        for other in ("a.md", {"path": "a.md"}, ("a.md", 1, 1)):
            assert refusal(source=other).where == "source"
