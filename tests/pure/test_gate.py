"""The text gate: what is mended, what is refused, and that nothing else is touched."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings

from core.errors import Refused
from core.model.memory import Draft, Source
from core.write import gate
from core.write.gate import admit, admit_changes, clean_text, draft_of
from tests.pure.draft_inputs import (
    DRAFTS,
    SEEN_DRAFTS,
    TENANT,
    admitted,
    draft,
)


class TestAdmit:
    @settings(max_examples=60, deadline=None)
    @given(DRAFTS)
    def test_any_draft_is_admitted_or_refused_and_nothing_else_is_raised(self, given_draft: Draft) -> None:
        with suppress(Refused):
            admit(TENANT, given_draft)

    @settings(max_examples=60, deadline=None)
    @given(SEEN_DRAFTS)
    def test_admitting_what_was_admitted_changes_nothing(self, given_draft: Draft) -> None:
        try:
            once = admit(TENANT, given_draft)
        except Refused:
            return  # keys that fall together
        again = admit(TENANT, once.draft)
        assert again.draft == once.draft
        assert again.cleaned == ()
        stored = json.dumps(
            [once.draft.metadata, once.draft.tags, once.draft.content], ensure_ascii=False, allow_nan=False
        )
        assert "\\u0000" not in stored
        stored.encode()

    def test_every_field_of_a_draft_has_a_rule(self) -> None:
        assert list(gate._RULES) == [field.name for field in fields(Draft)]

    @pytest.mark.parametrize("other", [None, {"content": "x"}, "x"])
    def test_what_is_no_draft_is_refused(self, other: Any) -> None:
        with pytest.raises(Refused):
            admit(TENANT, other)

    def test_a_bulk_of_100_with_a_zero_in_the_37th_gives_100_and_flags_that_one_alone(self) -> None:
        drafts = [draft(content=f"text {n}" + ("\x00" if n == 37 else "")) for n in range(100)]
        results = [admit(TENANT, each) for each in drafts]
        assert [n for n, result in enumerate(results) if result.cleaned] == [37]
        assert results[37].draft.content == "text 37"
        assert all(results[n].draft.content == drafts[n].content for n in range(100) if n != 37)

    def test_what_the_caller_holds_is_not_shared_and_not_changed(self) -> None:
        metadata = {"a": ["x\x00"]}
        kept = admitted(metadata=metadata).metadata
        assert metadata == {"a": ["x\x00"]}
        metadata["a"].append("later")
        assert kept == {"a": ["x"]}


class TestDraftOf:
    def test_every_field_can_be_given_as_json(self) -> None:
        text = """{
            "content": "c", "id": "i", "subject": "person:ana", "scope": "team", "project": "p", "agent": "a",
            "session": "agent:main:1", "position": 3, "speaker": "Ana", "role": "user", "type": "turn",
            "title": "t", "tags": ["x", "y"], "labels": {"lang": "de"}, "metadata": {"k": [1]},
            "importance": 1,
            "source": {"path": "a.md", "first_line": 1, "last_line": 2},
            "expires_at": "2030-01-01T00:00:00+09:00", "created_at": "2026-01-01T00:00:00Z"
        }"""
        result = admit(TENANT, draft_of(json.loads(text))).draft
        assert result.source == Source(path="a.md", first_line=1, last_line=2)
        assert result.expires_at == datetime(2029, 12, 31, 15, tzinfo=UTC)
        assert result.created_at == datetime(2026, 1, 1, tzinfo=UTC)
        assert (result.tags, result.position, result.importance) == (("x", "y"), 3, 1.0)

    @pytest.mark.parametrize(
        ("text", "hour"),
        [
            ("2026-03-01T09:00:00", 9),
            ("2026-03-01T09:00:00Z", 9),
            ("2026-03-01T09:00:00z", 9),
            ("2026-03-01T09:00:00+09:00", 0),
            ("2026-03-01 09:00", 9),
            ("2026-03-01", 0),
            ("20260301T090000Z", 9),
            ("2026-03-01T09:00:00.123456789Z", 9),
        ],
    )
    def test_iso_8601_times_are_read_and_naive_ones_are_utc(self, text: str, hour: int) -> None:
        moment = admit(TENANT, draft_of({"content": "c", "created_at": text})).draft.created_at
        assert moment is not None
        assert moment.replace(microsecond=0) == datetime(2026, 3, 1, hour, tzinfo=UTC)

    @pytest.mark.parametrize(
        "value", ["", "soon", "2026-13-01", "2026-02-30T00:00", "\ud83d", "2026", 1_700_000_000, True, {}]
    )
    def test_other_times_are_refused_by_name_and_not_quoted(self, value: Any) -> None:
        with pytest.raises(Refused) as caught:
            admit(TENANT, draft_of({"content": "c", "created_at": value}))
        assert caught.value.where == "created_at"
        assert "soon" not in str(caught.value)

    @pytest.mark.parametrize(
        "key", ["tenant", "Content", "embedding_id", "version", "deleted_at", "text", "a\x00b", ""]
    )
    def test_a_key_that_is_no_field_is_refused_by_name(self, key: str) -> None:
        with pytest.raises(Refused) as caught:
            draft_of({"content": "c", key: "other"})
        assert caught.value.where == clean_text(key)

    @pytest.mark.parametrize("value", [None, [], "text", 5, [["content", "c"]]])
    def test_what_is_no_object_is_refused(self, value: Any) -> None:
        with pytest.raises(Refused):
            draft_of(value)

    def test_null_is_the_same_as_not_given(self) -> None:
        nulls = {field.name: None for field in fields(Draft)}
        assert draft_of({**nulls, "content": "c"}) == Draft(content="c")
        for missing in ({}, {"content": None}):
            with pytest.raises(Refused) as caught:
                draft_of(missing)
            assert caught.value.where == "content"

    @pytest.mark.parametrize(
        "source", ["a.md", 5, {}, {"path": "a"}, {"path": "a", "first_line": 1, "last_line": 1, "x": 1}]
    )
    def test_a_source_of_another_shape_is_refused(self, source: Any) -> None:
        with pytest.raises(Refused) as caught:
            admit(TENANT, draft_of({"content": "c", "source": source}))
        assert caught.value.where == "source"


class TestChanges:
    def test_the_same_rules_hold_and_only_what_is_given_comes_back(self) -> None:
        result = admit_changes({"content": "new\x00", "tags": ["a", "a"], "expires_at": "2030-01-01", "importance": 1})
        assert result.changes == {
            "content": "new",
            "tags": ("a",),
            "expires_at": datetime(2030, 1, 1, tzinfo=UTC),
            "importance": 1.0,
        }
        assert result.cleaned == ("content",)

    @pytest.mark.parametrize(
        ("changes", "where"),
        [
            ({"id": "x"}, "id"),
            ({"id": None}, "id"),
            ({"tenant": "other"}, "tenant"),
            ({"version": 3}, "version"),
            ({"content": " "}, "content"),
            ({"metadata": {"a": math.nan}}, "metadata.a"),
            ({"importance": 2}, "importance"),
            ({"content": None}, "content"),
            ({"scope": None}, "scope"),
            ({"type": None}, "type"),
            ({"importance": None}, "importance"),
            ({"created_at": None}, "created_at"),
            ({1: 2}, "int"),
        ],
    )
    def test_what_cannot_change_or_breaks_a_rule_is_refused(self, changes: Any, where: str) -> None:
        with pytest.raises(Refused) as caught:
            admit_changes(changes)
        assert caught.value.where == where

    def test_none_clears_optional_fields(self) -> None:
        clearable = [
            "subject",
            "project",
            "agent",
            "session",
            "position",
            "speaker",
            "role",
            "title",
            "source",
            "expires_at",
        ]
        assert admit_changes(dict.fromkeys(clearable)).changes == dict.fromkeys(clearable)
        empty = admit_changes({"tags": None, "labels": None, "metadata": None}).changes
        assert empty == {"tags": (), "labels": {}, "metadata": {}}

    def test_no_changes_are_none(self) -> None:
        assert admit_changes({}).changes == {}
