"""What a person sees, in a real browser: the pages of runs in Prefect's UI. Screenshots go to build/."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import ROOT
from tests.paths.installation import Installation, running_installation

CHROMIUM = Path("/usr/bin/chromium")
SCREENSHOTS = ROOT / "build" / "screenshots"
# The page asks the server for what it shows; the browser gives it this much time of its own clock.
PAGE_MILLISECONDS = 15_000
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def everything() -> Iterator[Installation]:
    """Everything up, in a home of its own."""
    with running_installation() as installation:
        yield installation


def opened(address: str, name: str, profile: Path) -> str:
    """Open a page, keep a picture of it, and give its text as the browser has it in the end."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    command = [
        *(str(CHROMIUM), *QUIET, f"--user-data-dir={profile}", "--window-size=1400,1400"),
        *(
            f"--virtual-time-budget={PAGE_MILLISECONDS}",
            f"--screenshot={SCREENSHOTS / name}.png",
            "--dump-dom",
            address,
        ),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_pages_of_a_nightly_and_a_reindex_run_say_what_they_did(everything: Installation, tmp_path: Path) -> None:
    everything.memory("add", "Ana prefers green tea", "--tenant", "anna")
    nightly = everything.run("nightly")
    reindex = everything.run("reindex", model="wordllama", dimensions=128, tenants=["anna"])
    assert (nightly["state_type"], reindex["state_type"]) == ("COMPLETED", "COMPLETED")
    ui = everything.address
    for run, said in ((nightly, "nightly: anna, 1 records"), (reindex, "reindex to wordllama: anna")):
        page = opened(f"{ui}/runs/flow-run/{run['id']}", said.partition(" ")[0].strip(":"), tmp_path / run["id"])
        assert said in page
        assert "Completed" in page
        assert "green tea" not in page
    deployments = opened(f"{ui}/deployments", "deployments", tmp_path / "deployments")
    assert "nightly" in deployments
    form = everything.api("deployments/filter", {"deployments": {"name": {"any_": ["erase"]}}})[0]["id"]
    page = opened(f"{ui}/deployments/deployment/{form}/run", "erase-form", tmp_path / "form")
    assert "Whose memories" in page
