"""Job templates of the work pools: a Prefect server takes each, every variable is there, and no secret is in one."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest

from core.settings import Settings
from tests.house.source import ROOT

KINDS = ("process", "docker", "kubernetes")


def template(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / f"deployments/work_pools/{kind}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.usefixtures("prefect_api")
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_takes_the_template_as_it_is(kind: str) -> None:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate

    name = f"{kind}-{uuid.uuid4().hex[:8]}"
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name=name, type=kind, base_job_template=template(kind)))
        assert client.read_work_pool(name).base_job_template == template(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_template_fills_in_are_its_variables(kind: str) -> None:
    given = template(kind)
    used = set(re.findall(r"{{ (\w+) }}", json.dumps(given["job_configuration"])))
    assert used
    assert used == set(given["variables"]["properties"])


@pytest.mark.parametrize("kind", KINDS)
def test_settings_it_sets_exist_and_are_no_secrets(kind: str) -> None:
    named = template(kind)["variables"]["properties"]["env"]["default"]
    ours = {name.removeprefix("MEMORY_").lower() for name in named if name.startswith("MEMORY_")}
    assert ours
    assert ours <= set(Settings.model_fields)
    assert not any(name.endswith(("KEY", "SECRET", "PASSWORD", "TOKEN", "URL")) for name in named)


@pytest.mark.parametrize("kind", ["docker", "kubernetes"])
def test_a_container_is_bounded_and_has_no_more_rights_than_it_needs(kind: str) -> None:
    given = template(kind)
    variables = given["variables"]["properties"]
    assert variables["mem_limit" if kind == "docker" else "memory_limit"]["default"]
    if kind == "docker":
        assert variables["privileged"]["default"] is False
    else:
        (container,) = given["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]["containers"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["envFrom"] == [{"secretRef": {"name": "memory-engine"}}]
