"""The text gate on texts, names, tags and labels."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Refused
from core.write.gate import admit, admit_id, admit_tenant, clean_text, is_blank
from tests.pure.draft_inputs import (
    ANY_TEXT,
    NAMES,
    TENANT,
    admitted,
    draft,
    refusal,
)


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
    def test_zero_goes_pairs_join_lone_surrogates_are_replaced_and_all_else_stays(self, given: str, kept: str) -> None:
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


class TestNames:
    @pytest.mark.parametrize("field", NAMES)
    def test_a_name_is_kept_exactly(self, field: str) -> None:
        for value in ("agent:main:1", " padded ", "a|b", "x" * 512, "e\u0301", "\u00e9", "予算"):
            assert getattr(admitted(**{field: value}), field) == value

    @pytest.mark.parametrize("field", NAMES)
    @pytest.mark.parametrize("value", ["", " \n", "\ufeff", "x" * 513, "予" * 171, 1, 1.5, True, [], b"x", object()])
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
