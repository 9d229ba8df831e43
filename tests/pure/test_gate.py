"""The text gate: what is mended, what is refused, and that nothing else is touched."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import Refused
from core.model.memory import Draft, Source
from core.write import gate
from core.write.gate import admit, admit_changes, admit_id, admit_tenant, clean_text, draft_of, is_blank

TENANT = "acme"
ANY_TEXT = st.text(alphabet=st.characters(codec=None, exclude_categories=()))
SEEN = st.text(min_size=1, max_size=20).filter(lambda text: not is_blank(text))


def draft(**changes: Any) -> Draft:
    return Draft(**{"content": "Ana prefers green tea", **changes})


def refusal(**changes: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        admit(TENANT, draft(**changes))
    return caught.value


def admitted(**changes: Any) -> Draft:
    return admit(TENANT, draft(**changes)).draft


class TestCleanText:
    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            ("a\x00b", "ab"),
            ("\x00", ""),
            ("ok \ud83d", "ok \ufffd"),
            ("\ude00 ok", "\ufffd ok"),
            ("\ude00\ud83d", "\ufffd\ufffd"),
            ("\ud83d\ude00", "😀"),
            ("\ud83d\ud83d\ude00", "\ufffd😀"),
            ("😀", "😀"),
            (" \t e\u0301 \u200b\ufeff\u2028\x85\r\n", " \t e\u0301 \u200b\ufeff\u2028\x85\r\n"),
            ("\ufffe\uffff\U0010ffff\x7f\x01", "\ufffe\uffff\U0010ffff\x7f\x01"),
        ],
    )
    def test_zero_goes_pairs_join_lone_surrogates_are_replaced_and_all_else_stays(
        self, given: str, kept: str
    ) -> None:
        assert clean_text(given) == kept

    @given(st.text())
    def test_any_text_without_zero_and_surrogates_is_kept_exactly(self, text: str) -> None:
        assert clean_text(text) == text.replace("\x00", "")

    @given(ANY_TEXT)
    def test_any_text_at_all_can_be_encoded_and_cleaning_twice_is_cleaning_once(self, text: str) -> None:
        cleaned = clean_text(text)
        assert cleaned.encode().decode() == cleaned
        assert clean_text(cleaned) == cleaned

    @given(ANY_TEXT)
    def test_it_means_what_json_means_by_the_same_escapes(self, text: str) -> None:
        escaped = json.dumps(text.replace("\x00", ""), ensure_ascii=True)
        assert clean_text(text) == clean_text(json.loads(escaped))

    def test_a_subclass_of_str_becomes_plain(self) -> None:
        kind = StrEnum("kind", {"A": "a"})
        assert type(clean_text(kind["A"])) is str


class TestBlank:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "\n\n",
            "   ",
            "\u3000",
            "\u200b\ufeff",
            "\u2060",
            "\x85\u2028",
            "\x00\x01",
            "\u00ad",
            "\u3164",
            "\u2800",
            "\ufe0f",
            "\u180e",
            "\u034f",
            "\U000e0020",
            "\u202e \u2066",
        ],
    )
    def test_what_cannot_be_seen_is_refused_as_empty(self, text: str) -> None:
        assert is_blank(text)
        error = refusal(content=text)
        assert error.where == "content"
        assert error.details["reason"] == "empty"

    @pytest.mark.parametrize("text", ["a", "\u200ba", " . ", "\u3000予", "😀", "\u0301", "\ufffd", "0"])
    def test_one_character_that_can_be_seen_is_enough(self, text: str) -> None:
        assert not is_blank(text)
        assert admitted(content=text).content == text

    def test_content_that_is_only_surrogates_is_kept_as_replacement_characters(self) -> None:
        result = admit(TENANT, draft(content="\ud83d"))
        assert (result.draft.content, result.cleaned) == ("\ufffd", ("content",))

    def test_content_that_is_only_zeros_is_empty_and_not_stored(self) -> None:
        assert refusal(content="\x00\x00").details["reason"] == "empty"


class TestTenant:
    @pytest.mark.parametrize(
        "tenant", ["a-b", "a_b", "A-B", "acme", "acme/x", "..", "ünï", "u\u0308ni\u0308", "x" * 80]
    )
    def test_names_that_stores_can_hold_are_taken_unchanged(self, tenant: str) -> None:
        assert admit_tenant(tenant) == tenant
        admit(tenant, draft())

    @pytest.mark.parametrize(
        "tenant",
        [
            "",
            " ",
            "\u200b",
            "a\x00b",
            "a\nb",
            "a\x7f",
            "\x85",
            "a\ud83d",
            "\ud83d\ude00",
            "x" * 81,
            "ü" * 14,
            None,
            7,
            b"acme",
            ["acme"],
        ],
    )
    def test_any_other_is_refused_and_never_mended_into_another(self, tenant: Any) -> None:
        with pytest.raises(Refused) as caught:
            admit(tenant, draft())
        assert caught.value.where == "tenant"

    def test_long_names_that_differ_at_the_end_are_refused_rather_than_cut(self) -> None:
        for end in "ab":
            with pytest.raises(Refused):
                admit_tenant("t" * 299 + end)


class TestIds:
    @pytest.mark.parametrize(
        "memory_id", ["agent:main:1", "mem_01", "a" * 512, "é" * 256, "a/b#c?d", "note:x.md#0-1", "😀"]
    )
    def test_any_seen_text_of_512_bytes_is_an_id(self, memory_id: str) -> None:
        assert admitted(id=memory_id).id == memory_id
        assert admit_id(memory_id) == memory_id

    @pytest.mark.parametrize(
        "memory_id", ["", "  ", "\u200b", "a" * 513, "é" * 257, "a\nb", "a\x00b", "\x9f", 5, True, b"x"]
    )
    def test_any_other_is_refused(self, memory_id: Any) -> None:
        assert refusal(id=memory_id).where == "id"
        with pytest.raises(Refused):
            admit_id(memory_id)

    def test_zero_is_not_dropped_from_an_id_since_two_ids_would_fall_together(self) -> None:
        assert refusal(id="a\x00b").where == "id"
        assert admitted(id="ab").id == "ab"

    def test_a_surrogate_in_an_id_is_mended_alike_for_writing_and_for_looking_up(self) -> None:
        result = admit(TENANT, draft(id="note \ud83d"))
        assert result.draft.id == "note \ufffd" == admit_id("note \ud83d")
        assert result.cleaned == ("id",)


NAMES = ["scope", "project", "agent", "session", "speaker", "role", "type", "subject"]


class TestNames:
    @pytest.mark.parametrize("field", NAMES)
    def test_a_name_is_kept_exactly(self, field: str) -> None:
        for value in ("agent:main:1", " padded ", "a|b", "x" * 512, "e\u0301", "\u00e9", "予算"):
            assert getattr(admitted(**{field: value}), field) == value

    @pytest.mark.parametrize("field", NAMES)
    @pytest.mark.parametrize(
        "value", ["", " \n", "\ufeff", "x" * 513, "予" * 171, 1, 1.5, True, [], b"x", object()]
    )
    def test_a_blank_long_or_other_value_is_refused_by_name(self, field: str, value: Any) -> None:
        assert refusal(**{field: value}).where == field

    @pytest.mark.parametrize("field", ["scope", "type"])
    def test_scope_and_type_are_never_none(self, field: str) -> None:
        assert refusal(**{field: None}).where == field

    def test_zeros_and_surrogates_in_names_are_mended_and_reported(self) -> None:
        result = admit(TENANT, draft(session="s\x001", speaker="\ud83d\ude00"))
        assert (result.draft.session, result.draft.speaker) == ("s1", "😀")
        assert set(result.cleaned) == {"session", "speaker"}

    def test_title_and_content_are_bounded_in_characters(self) -> None:
        assert admitted(title="予" * 2000).title == "予" * 2000
        assert refusal(title="a" * 2001).where == "title"
        assert len(admitted(content="a" * 1_000_000).content) == 1_000_000
        assert refusal(content="a" * 1_000_001).where == "content"

    @pytest.mark.parametrize("content", [None, 5, b"text", ["text"], {"text": 1}])
    def test_content_of_another_type_is_refused(self, content: Any) -> None:
        assert refusal(content=content).where == "content"

    def test_no_message_quotes_the_content(self) -> None:
        for error in (
            refusal(content="secret" * 200_000),
            refusal(metadata={"a": {"b": "secret", "c": math.nan}}),
        ):
            assert "secret" not in str(error)


class TestTagsAndLabels:
    TAGS = ("food, spicy", "a|b", "it's", "x*", "back\\slash", " padded ", "e\u0301", "\u00e9")

    def test_tags_make_an_exact_round_trip(self) -> None:
        result = admit(TENANT, draft(tags=list(self.TAGS)))
        assert result.draft.tags == self.TAGS
        assert result.cleaned == ()

    def test_equal_tags_are_dropped_and_the_order_is_kept(self) -> None:
        assert admitted(tags=["b", "a", "b", "A", "a"]).tags == ("b", "a", "A")

    def test_a_tag_is_mended_and_reported_by_its_place(self) -> None:
        result = admit(TENANT, draft(tags=["a", "b\x00", "c\ud83d"]))
        assert result.draft.tags == ("a", "b", "c\ufffd")
        assert result.cleaned == ("tags[1]", "tags[2]")

    @pytest.mark.parametrize(
        ("tags", "where"),
        [
            ("food", "tags"),
            (b"food", "tags"),
            (None, "tags"),
            ({"a": 1}, "tags"),
            ({"a"}, "tags"),
            (5, "tags"),
            ([""], "tags[0]"),
            (["a", "\u200b"], "tags[1]"),
            (["a", 3], "tags[1]"),
            ([None], "tags[0]"),
            ([["a"]], "tags[0]"),
            (["x" * 257], "tags[0]"),
            (["予" * 86], "tags[0]"),
            ([str(n) for n in range(65)], "tags"),
        ],
    )
    def test_what_is_no_list_of_seen_short_texts_is_refused(self, tags: Any, where: str) -> None:
        assert refusal(tags=tags).where == where

    def test_64_tags_of_256_bytes_are_taken_equal_ones_counted_once(self) -> None:
        tags = [f"{n:03}".ljust(256, "x") for n in range(64)]
        assert admitted(tags=tags * 2).tags == tuple(tags)

    def test_labels_are_texts_by_name(self) -> None:
        assert admitted(labels={"lang": "de", "empty": ""}).labels == {"lang": "de", "empty": ""}
        result = admit(TENANT, draft(labels={"a": "x\x00y"}))
        assert (result.draft.labels, result.cleaned) == ({"a": "xy"}, ("labels.a",))

    @pytest.mark.parametrize(
        ("labels", "where"),
        [
            ({"a": 1}, "labels.a"),
            ({"a": None}, "labels.a"),
            ({"a": ["x"]}, "labels.a"),
            ({"a": True}, "labels.a"),
            ({1: "x"}, "labels"),
            ([("a", "b")], "labels"),
            ("a=b", "labels"),
            (None, "labels"),
            ({"": "x"}, "labels."),
            ({"a": "x" * 513}, "labels.a"),
            ({"a\x00b": "1", "ab": "2"}, "labels.ab"),
            ({str(n): "x" for n in range(65)}, "labels"),
        ],
    )
    def test_labels_of_another_shape_are_refused(self, labels: Any, where: str) -> None:
        assert refusal(labels=labels).where == where


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
        values = [
            getattr(admitted(**{field: value}), field) for value in (naive, tokyo, naive.replace(tzinfo=UTC))
        ]
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


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=10,
)
DRAFTS = st.builds(
    Draft,
    content=ANY_TEXT,
    id=st.none() | ANY_TEXT,
    session=st.none() | ANY_TEXT,
    title=st.none() | ANY_TEXT,
    position=st.none() | st.integers(),
    tags=st.lists(ANY_TEXT, max_size=4),
    labels=st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=2),
    metadata=st.dictionaries(ANY_TEXT, JSON_VALUES, max_size=3),
    importance=st.floats(),
    expires_at=st.none() | st.datetimes(timezones=st.none() | st.just(timezone(timedelta(hours=9)))),
)
SEEN_DRAFTS = st.builds(
    Draft,
    content=ANY_TEXT.map(lambda text: f"x{text}"),
    session=ANY_TEXT.map(lambda text: f"x{text}"[:100]),
    title=st.none() | ANY_TEXT,
    tags=st.lists(ANY_TEXT.map(lambda text: f"x{text}"[:50]), max_size=4),
    metadata=st.dictionaries(ANY_TEXT, JSON_VALUES, max_size=3),
    importance=st.floats(0, 1),
    created_at=st.none() | st.datetimes(min_value=datetime(2, 1, 1), timezones=st.none() | st.timezones()),
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
        result = admit_changes(
            {"content": "new\x00", "tags": ["a", "a"], "expires_at": "2030-01-01", "importance": 1}
        )
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
