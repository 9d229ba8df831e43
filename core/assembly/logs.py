"""Log lines of a process, as text or JSON, with what they are about.

Only for processes that are ours: a service that uses the engine has logging of its own, and the engine's lines are
there under `core`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

from core.model.logged import bound_now
from core.settings import Settings

OURS = ("core", "tasks", "flows", "deployments")
RUNS = ("prefect.flow_runs", "prefect.task_runs")
# What Prefect notes on the lines of a run.
OF_A_RUN = ("flow_run_name", "flow_run_id", "task_run_name")
Event = MutableMapping[str, Any]


def set_up_logs(settings: Settings) -> None:
    """Write this process's lines to standard error as the settings say. Done again, it changes what was done before.

    Lines of the engine's own are shown from `log_level` on. With INFO or DEBUG those of flow and task runs are shown
    too, and warnings of libraries. A library's finer lines are never shown: they may quote what is sent.
    """
    level = logging.getLevelNamesMapping()[settings.log_level]
    handler = _Lines()
    handler.setFormatter(_formatter(settings.log_format))
    handler.addFilter(_Chosen(level))
    root = logging.getLogger()
    for other in list(root.handlers):
        # Prefect's would say each line of a run a second time.
        if isinstance(other, _Lines) or type(other).__name__ == "PrefectConsoleHandler":
            root.removeHandler(other)
    root.addHandler(handler)
    for name in OURS:
        logging.getLogger(name).setLevel(level)


class _Lines(logging.StreamHandler[TextIO]):
    """Writes to standard error as it is at that moment."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class _Chosen(logging.Filter):
    """Which lines are shown."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] in OURS:
            return record.levelno >= self._level
        if self._level > logging.INFO:
            return False
        return record.levelno >= (self._level if record.name in RUNS else logging.WARNING)


def _formatter(kind: str) -> logging.Formatter:
    import structlog
    from structlog.types import Processor

    before: list[Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(allow=OF_A_RUN),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _with_what_it_is_about,
    ]
    # Both show a traceback without the values of variables, which may be memories or keys.
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if kind == "json":
        last += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    else:
        plain = structlog.dev.plain_traceback
        last.append(structlog.dev.ConsoleRenderer(colors=False, exception_formatter=plain, pad_event_to=0))
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=last)


def _with_what_it_is_about(_logger: object, _method: str, event: Event) -> Event:
    return {**event, **bound_now()}
