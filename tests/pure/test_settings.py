"""Settings: what is chosen is checked once, spans are written as people write them, secrets never show."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from core.errors import Misconfigured
from core.settings import load_settings

MINUTE = timedelta(seconds=60)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory.toml of the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("text", ["60", "60s", "60 s", "60.0", "PT60S", "00:01:00"])
def test_a_span_is_seconds_or_iso_8601(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MEMORY_LEASE", text)
    assert load_settings().lease == MINUTE


@pytest.mark.parametrize("value", ["60", "60.5", '"60 s"'])
def test_spans_in_the_file(value: str) -> None:
    Path("memory.toml").write_text(f"lease = {value}\n", encoding="ascii")
    assert timedelta(seconds=60) <= load_settings().lease <= timedelta(seconds=60.5)


@pytest.mark.parametrize("text", ["soon", "-5", "0", "1.2.3", "", "nan"])
def test_a_span_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MEMORY_LEASE", text)
    with pytest.raises(Misconfigured, match="lease"):
        load_settings()


def test_the_environment_stands_above_the_file_and_arguments_above_both(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("memory.toml").write_text("embed_batch = 10\nembed_workers = 3\nembed_portion = 40\n", encoding="ascii")
    monkeypatch.setenv("MEMORY_EMBED_BATCH", "20")
    monkeypatch.setenv("MEMORY_EMBED_WORKERS", "4")
    chosen = load_settings(embed_batch=30)
    assert (chosen.embed_batch, chosen.embed_workers, chosen.embed_portion) == (30, 4, 40)


def test_an_unknown_name_in_the_file_is_refused() -> None:
    Path("memory.toml").write_text("embed_bacth = 10\n", encoding="ascii")
    with pytest.raises(Misconfigured, match="embed_bacth"):
        load_settings()


def test_secrets_show_in_no_error_and_no_print() -> None:
    url = "postgresql://user:s3cret@host/db"
    chosen = load_settings(postgres_url=url, redis_url="redis://:s3cret@host")
    assert "s3cret" not in f"{chosen!r} {chosen} {chosen.model_dump()}"
    with pytest.raises(Misconfigured) as raised:
        load_settings(postgres_url=url, lease="soon")
    assert "s3cret" not in str(raised.value)


def test_the_graph_lends_nothing_to_searches_unless_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().ranking.graph == 0
    monkeypatch.setenv("MEMORY_SEARCH_GRAPH", "0.3")
    assert load_settings().ranking.graph == 0.3
