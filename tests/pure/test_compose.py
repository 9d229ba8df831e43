"""The Compose file: valid by the schema, every service watched and bounded, no password that has a default."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose
from prefect.settings import Settings as PrefectSettings
from typer.main import get_command

from core.settings import Settings
from deployments.cli import app
from deployments.schedules import TABLE
from deployments.serving import POOL_TYPE
from tests.house.source import ROOT

FILE = ROOT / "deployments" / "compose.yaml"
TEXT = FILE.read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
ENDS = {"bucket", "deploy"}
LONG_RUNNING = sorted(set(SERVICES) - ENDS)
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "memory-engine"}
WORKER = SERVICES["worker"]
SECRETS = ("PASSWORD", "API_KEY", "KEY_ID", "SECRET")


def read(document: dict[str, Any]) -> PyCompose:
    """By the schema's own library, merges done."""
    return PyCompose.from_json(json.dumps(document))


def test_it_meets_the_schema() -> None:
    found = read(yaml.safe_load(TEXT))
    found.validate()
    found.validate_configs()
    found.validate_volumes()
    assert set(found.to_spec().services or {}) == set(SERVICES)


WRONG: list[tuple[str, object]] = [("mem_limt", "1g"), ("healthcheck", ["CMD"]), ("ports", 5), ("depends_on", "x")]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_the_schema_refuses_what_is_wrong(key: str, value: object) -> None:
    document = yaml.safe_load(TEXT)
    document["services"]["qdrant"][key] = value
    with pytest.raises(ValueError, match=r"extension key|invalid type"):
        read(document)


@pytest.mark.parametrize("name", LONG_RUNNING)
def test_every_server_is_watched_bounded_and_restarted(name: str) -> None:
    service = SERVICES[name]
    assert "mem_limit" in service
    assert service["restart"] == "unless-stopped"
    if name != "worker":  # its heartbeat is Prefect's to watch
        assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert ":" in service["image"] or "build" in service


def test_what_is_kept_is_on_volumes_and_the_cache_is_not() -> None:
    named = {mount.partition(":")[0] for service in SERVICES.values() for mount in service.get("volumes", ())}
    assert named == set(yaml.safe_load(TEXT)["volumes"])
    assert "volumes" not in SERVICES["valkey"]


def test_no_password_has_a_default() -> None:
    asked = re.findall(r"\$\{(\w+)([^}]*)\}", TEXT)
    assert {name for name, _ in asked} == {
        "MEMORY_POSTGRES_PASSWORD",
        "MEMORY_QDRANT_API_KEY",
        "MEMORY_REDIS_PASSWORD",
        "MEMORY_S3_KEY_ID",
        "MEMORY_S3_SECRET",
    }
    assert all(rest.startswith(":?") for _, rest in asked)
    for service in SERVICES.values():
        for name, value in (service.get("environment") or {}).items():
            if name.endswith(SECRETS):
                assert str(value).startswith("${"), name


def test_it_sets_settings_that_exist() -> None:
    assert set(OURS) == {"deploy", "worker", "metrics"}
    for service in OURS.values():
        given = service["environment"]
        assert {name[7:].lower() for name in given if name.startswith("MEMORY_")} <= set(Settings.model_fields)
        known = {name for field in PrefectSettings.model_fields for name in [f"PREFECT_{field.upper()}"]}
        others = {name for name in given if name.startswith("PREFECT_")}
        assert all(any(name == one or name.startswith(f"{one}_") for one in known) for name in others)
        assert given["PREFECT_API_URL"] == "http://prefect:4200/api"


def test_server_then_deployments_then_workers_of_the_same_pool() -> None:
    assert SERVICES["deploy"]["depends_on"] == {"prefect": {"condition": "service_healthy"}}
    assert SERVICES["worker"]["depends_on"]["deploy"] == {"condition": "service_completed_successfully"}
    pool = [service["command"][service["command"].index("--pool") + 1] for service in (SERVICES["deploy"], WORKER)]
    assert pool[0] == pool[1]
    kind = WORKER["command"][WORKER["command"].index("--type") + 1]
    assert kind == POOL_TYPE
    residents = sum(one.resident for one in TABLE)
    assert int(WORKER["command"][WORKER["command"].index("--limit") + 1]) > residents + 1  # it leaves room for others


@pytest.mark.parametrize("name", ["deploy", "metrics"])
def test_its_commands_and_their_options_exist(name: str) -> None:
    program, command, *options = SERVICES[name]["command"]
    assert program == "memory"
    (found,) = [one for one in get_command(app).commands.items() if one[0] == command]  # type: ignore[attr-defined]
    context = found[1].make_context(command, [str(one) for one in options])
    assert context.params


def test_only_this_machine_reaches_what_asks_for_no_password() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published == ["127.0.0.1:4200:4200", "127.0.0.1:9464:9464"]


def test_the_image_holds_what_the_packages_need() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (FILE.parent / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    assert all((ROOT / source).exists() for source in sources)
    assert {"core", "tasks", "flows", "deployments", "data"} <= set(sources)
