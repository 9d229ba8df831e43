"""The dashboard and the alert rules: every metric they name is served, and every label they use is one it has."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from core.model.metrics import METRICS, Kind
from tests.house.source import ROOT

DASHBOARD = json.loads((ROOT / "deployments/grafana-dashboard.json").read_text(encoding="utf-8"))
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((ROOT / "deployments/prometheus-alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
NAME = re.compile(r"\bmemory_\w+")


def served() -> dict[str, tuple[str, ...]]:
    """The series Prometheus gets, with their labels: a histogram is three."""
    names: dict[str, tuple[str, ...]] = {}
    for metric in METRICS:
        if metric.kind is Kind.HISTOGRAM:
            names |= {f"{metric.name}_{part}": (*metric.labels, "le") for part in ("bucket", "count", "sum")}
        else:
            names[metric.name] = metric.labels
    return names


def queries() -> list[tuple[str, str]]:
    """Every expression, with the text that shows its labels."""
    shown = [(target["expr"], target["legendFormat"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return shown + [(rule["expr"], rule["annotations"]["summary"]) for rule in RULES]


def test_every_metric_the_dashboard_and_the_alerts_name_is_served() -> None:
    named = {name for query, _ in queries() for name in NAME.findall(query)}
    assert len(queries()) >= 25
    assert named - served().keys() == set()


def test_every_metric_is_in_the_dashboard_or_an_alert() -> None:
    named = {name for query, _ in queries() for name in NAME.findall(query)}
    assert {name for name in served() if not name.endswith("_sum")} - named == set()


def test_labels_that_are_shown_or_grouped_by_are_labels_of_the_metric() -> None:
    for query, text in queries():
        labels = {label for name in NAME.findall(query) for label in served()[name]}
        grouped = {one.strip() for group in re.findall(r"by \(([^)]*)\)", query) for one in group.split(",")}
        used = grouped | set(re.findall(r"{{\s*(?:\$labels\.)?(\w+)\s*}}", text))
        assert used <= labels, query


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    assert len(RULES) >= 10
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "action"}


def test_panels_do_not_lie_on_each_other() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    corners = {(place["x"], place["y"]) for place in places}
    assert len(corners) == len(places)
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_names_are_as_prometheus_wants_them() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"memory_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric.name
        assert not set(metric.labels) & {"memory", "memory_id", "content", "title", "session", "subject", "query"}
