"""What words a text is found by."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.model.terms import MAX_TERM, terms_asked, terms_of
from core.read.speakers import Naming


def test_words_stand_beside_their_stems_without_case_accents_and_widths() -> None:
    assert set(terms_of("Ｃａｆé RUNNING größer").counts) == {"cafe", "running", "run", "grosser"}


def test_stop_words_are_left_out_and_names_are_not() -> None:
    assert set(terms_of("what was it that An said to IT?").counts) == {"an", "said", "it"}
    assert set(terms_asked("The Who")) == {"who"}
    assert set(terms_asked("to be or not")) == {"to", "be", "or", "not"}


def test_scripts_without_spaces_give_grams_and_mixed_runs_are_cut_apart() -> None:
    assert set(terms_of("GitHub备份").counts) == {"github", "备份", "备", "份"}
    assert set(terms_asked("备份失败")) == {"备份", "份失", "失败"}
    assert "สวั" in terms_of("สวัสดี").counts
    assert terms_asked("茶") == {"茶": 1.0}


KEY_TERMS = [
    ("what was that thing we discussed about the API?", {"discuss", "api"}, {"what", "was", "that", "we", "the"}),
    ("¿qué discutimos nosotros sobre la cocina?", {"discut", "cocin"}, {"nosotros", "sobre", "la"}),
    ("o que nós discutimos com eles na cozinha", {"discut", "cozinh"}, {"nós", "com", "eles"}),
    ("was haben wir über die Schnittstelle besprochen", {"schnittstell", "besproch"}, {"was", "wir", "die"}),
    ("nous avons parlé avec lui du serveur", {"parl", "serveur"}, {"nous", "avec", "du"}),
    ("что мы обсуждали про сервер", {"обсужда", "сервер"}, {"что", "мы", "про"}),
    ("我们的那个方案是什么", {"方案"}, {"我们", "那个"}),
    ("昨日のサーバーは何でしたか", {"昨日", "サー"}, {"は何"}),
    ("우리 그들 서버 무엇 그때 그래서 회의", {"서버", "회의"}, {"우리", "그들", "무엇"}),
    ("ماذا قلنا عن الخادم", {"خادم"}, {"عن"}),
]


@pytest.mark.parametrize(("question", "key", "idle"), KEY_TERMS, ids=lambda value: value if type(value) is str else "")
def test_a_question_becomes_its_key_terms_in_every_language_with_a_stop_list(
    question: str, key: set[str], idle: set[str]
) -> None:
    asked = set(terms_asked(question))
    assert key <= asked
    assert asked.isdisjoint(idle)


@pytest.mark.parametrize("only", ["什么", "この", "우리", "the who", "мы"])
def test_a_question_of_stop_words_alone_is_asked_as_it_stands(only: str) -> None:
    assert terms_asked(only)


def test_a_language_that_is_named_decides_over_the_text() -> None:
    assert "hous" in terms_of("houses", "en").counts
    assert "houses" in terms_of("houses", "de").counts


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_has_terms_that_a_query_of_it_asks_for(text: str) -> None:
    kept, asked = terms_of(text).counts, terms_asked(text)
    assert all(0 < len(term) <= MAX_TERM and '"' not in term and "\\" not in term for term in kept)
    if kept and terms_of(text).length:
        assert set(asked) <= set(kept)


def test_long_texts_take_linear_time() -> None:
    assert len(terms_of("Header " + "a" * 200_000).counts) == 2
    assert terms_of("日本" * 50_000).length > 100_000


def test_names_are_known_by_word_in_any_script() -> None:
    assert Naming("What did José buy?").named(["Jose Ruiz", "Ana"]) == {"Jose Ruiz"}
    assert Naming("田中さんは何を買った").names("田中")
    assert Naming("what did ana buy").names("Ana")
    assert Naming("Dana's boat").names("Dana Marchetti-Low")
    assert not Naming("I hope she has low fever").names("Hope Low")
    assert not Naming("Is it banana bread?").names("Ana")
