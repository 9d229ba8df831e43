"""The README says what is so: settings, their defaults, commands and the tests it names exist."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
import yaml

from core.model.metrics import METRICS
from core.settings import Settings
from deployments.automations import alarms
from deployments.cli import app
from tests.house.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py")))
DEFAULTS = re.findall(r"^\| `(MEMORY_\w+)`[^|]* \| ([^|]+) \|", README, re.MULTILINE)


def test_every_test_it_names_exists() -> None:
    named = re.findall(r"`(test_\w+)`", README)
    assert len(named) > 10
    assert [name for name in named if f"def {name}(" not in TESTS] == []


def test_every_setting_it_names_exists() -> None:
    ours = {name for name in re.findall(r"`MEMORY_(\w+)", README) if "PASSWORD" not in name}
    assert ours
    assert {name.lower() for name in ours} <= set(Settings.model_fields)


@pytest.mark.parametrize(("name", "said"), DEFAULTS)
def test_defaults_are_as_it_says(name: str, said: str) -> None:
    default = Settings.model_fields[name.removeprefix("MEMORY_").lower()].default
    if isinstance(default, timedelta):
        assert said.partition(",")[0] == f"{default.total_seconds():.12g} s"
    elif default is not None:
        assert said.partition(",")[0].strip("` ").lower() == str(default).lower()
    else:
        assert said in ("none", "embedded", "the folder `objects` in home")


def test_every_command_is_in_its_table() -> None:
    shown = set(re.findall(r"`memory ([a-z-]+)", README))
    commands = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    assert commands == shown & commands
    assert shown <= commands


def test_every_metric_is_in_its_table() -> None:
    assert set(re.findall(r"`(memory_\w+)`", README)) == {metric.name for metric in METRICS}


def test_every_alarm_has_its_paragraph() -> None:
    rules = yaml.safe_load((ROOT / "deployments/prometheus-alerts.yaml").read_text(encoding="utf-8"))
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert len(alerts) >= 15
    told = dict(re.findall(r"^\| `(Memory[A-Z]\w+)` \| (.+) \|$", README, re.MULTILINE))
    assert told.keys() == alerts
    assert all(len(text) >= 50 for text in told.values())
    automations = {alarm.name.removeprefix("memory: ") for alarm in alarms()}
    assert automations <= set(re.findall(r"^\| ([a-z ]+) \| [^|]+ \| [^|]{50,} \|$", README, re.MULTILINE))
