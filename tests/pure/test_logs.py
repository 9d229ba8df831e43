"""Log lines: text or JSON, about a tenant, a generation and a batch, and no value of a variable in any of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from core.assembly.logs import OURS, set_up_logs
from core.model.logged import about, bound_now
from core.settings import load_settings

ours = logging.getLogger("core.batch.embed")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Handlers and levels of this process as they were."""
    root = logging.getLogger()
    handlers, levels = list(root.handlers), {name: logging.getLogger(name).level for name in OURS}
    yield
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def set_up(form: str, level: str) -> None:
    set_up_logs(load_settings(log_format=form, log_level=level))


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_json_line_says_when_who_what_and_about_whom(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("json", "INFO")
    with about(tenant="anna", generation=3), about(batch="b1", session=None):
        ours.info("%d embedded", 7)
    ours.info("of nobody")
    first, second = lines(capsys)
    assert first.pop("timestamp").endswith("Z")
    assert first == {
        "event": "7 embedded",
        "level": "info",
        "logger": "core.batch.embed",
        "tenant": "anna",
        "generation": 3,
        "batch": "b1",
    }
    assert "tenant" not in second


def test_a_text_line_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("text", "INFO")
    with about(tenant="anna", generation=3):
        ours.info("7 embedded")
    line = capsys.readouterr().err
    assert all(part in line for part in ("info", "7 embedded", "tenant=anna", "generation=3"))
    assert "\x1b" not in line


def test_threads_bind_for_themselves_and_do_not_mix() -> None:
    def bind(tenant: str) -> dict[str, Any]:
        with about(tenant=tenant):
            return dict(bound_now())

    with about(tenant="outside"), ThreadPoolExecutor(4) as pool:
        assert [one["tenant"] for one in pool.map(bind, "abcd")] == list("abcd")
        assert bound_now() == {"tenant": "outside"}
    assert bound_now() == {}


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_shows_no_values(capsys: pytest.CaptureFixture[str], form: str) -> None:
    set_up(form, "INFO")
    content = " ".join(["the combination", "is", str(7000 + 294)])
    try:
        assert content
        raise KeyError("missing")
    except KeyError:
        ours.exception("it failed")
    shown = capsys.readouterr().err
    assert "KeyError" in shown
    assert "combination is" not in shown


def test_lines_of_libraries_that_may_quote_what_is_sent_are_never_shown(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("json", "DEBUG")
    for name in ("openai._base_client", "httpcore", "botocore.endpoint", "psycopg"):
        logging.getLogger(name).debug("sent: the combination")
        logging.getLogger(name).info("sent: the combination")
    assert lines(capsys) == []


@pytest.mark.parametrize(("level", "shown"), [("WARNING", ["ours"]), ("INFO", ["ours", "of a run", "of a library"])])
def test_runs_and_libraries_are_shown_from_info_on(
    capsys: pytest.CaptureFixture[str], level: str, shown: list[str]
) -> None:
    set_up("json", level)
    ours.warning("ours")
    logging.getLogger("prefect.task_runs").warning("of a run")
    logging.getLogger("redis").warning("of a library")
    ours.debug("too fine")
    assert [one["event"] for one in lines(capsys)] == shown


def test_set_up_twice_says_each_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("text", "INFO")
    set_up("json", "INFO")
    ours.info("once")
    assert [one["event"] for one in lines(capsys)] == ["once"]
