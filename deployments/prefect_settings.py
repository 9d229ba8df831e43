"""Prefect's own settings for runs in this process: offline, quiet, its files in our home."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from core.adapters.server_parts import standing_in
from core.errors import Misconfigured, Unavailable

QUIET = {
    # No server has to be set up: Prefect starts one on this machine and ends it with the process.
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "true",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "60",
    # Nothing is sent anywhere.
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # The logs of runs are kept with the runs; the terminal is for the command's own words. At exit the
    # server prints tracebacks of its recorder though nothing is wrong.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    # Runs of served flows say so often that they live: an automation ends those that do not.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


def running_file(home: Path) -> Path:
    """Where `memory up` writes down what runs."""
    return home / "up" / "running.json"


def settle_prefect(home: Path) -> None:
    """Set what nobody has set: whoever runs a Prefect server (`PREFECT_API_URL`) keeps it; that of `memory up` is next.

    To be called before Prefect is first imported, which reads the environment once. Raises Misconfigured
    when the home folder cannot be made.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)  # Prefect makes the last folder of its path, not those above
    except OSError as error:
        raise Misconfigured(f"cannot make the folder {home}: {error.strerror}") from error
    standing = standing_in(running_file(home.resolve()))
    if standing is not None and standing.watcher.runs:
        os.environ.setdefault("PREFECT_API_URL", f"{standing.address}/api")
    os.environ.setdefault("PREFECT_HOME", str(home.resolve() / "prefect"))
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def start_prefect() -> None:
    """Start Prefect's own server of this process now (or meet the one PREFECT_API_URL names).

    Ctrl-C goes to every process of a terminal. A server that ends by it would leave the flow, which still
    has to say that it ends, waiting for a minute: so it inherits a mask that keeps Ctrl-C from it, and
    ends with this process instead. Raises Unavailable when there is no server in the end.
    """
    from prefect.client.orchestration import get_client

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with get_client(sync_client=True) as client:
            problem = client.api_healthcheck()
    except RuntimeError as error:
        raise Unavailable("Prefect's server on this machine does not start") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if problem is not None:
        raise Unavailable(f"Prefect's server does not answer ({type(problem).__name__}): is PREFECT_API_URL right?")
