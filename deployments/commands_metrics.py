"""The command that serves metrics to Prometheus, or prints them once."""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Annotated

import typer

from core.assembly import open_engine
from core.assembly.metrics import reading_of, serving_metrics
from core.settings import load_settings
from deployments import options
from deployments.output import hint, say, show_json, show_table

Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where to listen. Default: metrics_host.")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="0: any that is free. Default: metrics_port.")]
Once = Annotated[bool, typer.Option("--once", help="Print the figures of this moment, and end.")]
A_DAY = 86_400.0


def metrics(host: Host = None, port: Port = None, once: Once = False, as_json: options.AsJson = False) -> None:
    """Serve what can be measured to Prometheus, until it is ended: one such process is enough.

    \b
    Examples:
      memory metrics
      memory metrics --host 0.0.0.0 --port 9464
      memory metrics --once
    """
    settings = load_settings()
    with open_engine(settings) as engine:
        if once or as_json:
            found = reading_of(engine)
            rows = [(one.name, " ".join(one.labels), one.value) for one in found.samples]
            show_json(asdict(found)) if as_json else show_table(["metric", "of", "value"], rows)
            return
        address = settings.metrics_host if host is None else host
        wanted = settings.metrics_port if port is None else port
        with serving_metrics(engine, address, wanted) as found_port:
            say(f"http://{address}:{found_port}/metrics")
            hint("Ctrl-C ends it.")
            _until_ended()


def _until_ended() -> None:
    """Wait; Ctrl-C, or the service manager, ends it."""
    while not threading.Event().wait(A_DAY):
        pass
