"""The table of deployments: every flow a server can run, when it runs by itself, and how it is shown.

Plain data, and the one place for it: `memory deploy` puts it on a Prefect server, `memory up` and `memory serve`
run what is due. Times are UTC.

A chore that runs by a schedule runs once at a time: a second run is cancelled at once, so that after an outage one
run works and the late ones end without beginning. What people ask for has no such limit, because two erasures of
two people are two wishes: there the leases of the chores see to it that one tenant's work is done once at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEPLOYMENT_TAG = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One row. `flow` is module:name; `cron` None: on demand; `once` False: runs of it may stand side by side.

    `resident` marks what `memory up` starts as a process of its own, beside the server's schedules.
    """

    name: str
    flow: str
    description: str
    cron: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    once: bool = True
    resident: bool = False

    @property
    def tags(self) -> list[str]:
        """What the UI filters by."""
        return [DEPLOYMENT_TAG, f"chore:{self.name}"]


NIGHTLY = Deployment(
    name="nightly",
    flow="flows.nightly:nightly",
    cron="0 3 * * *",
    description="Every chore in turn, each a run of its own, then the report. A chore that fails hides no other.",
)
TEND = Deployment(
    name="tend",
    flow="flows.tend:tend",
    cron="*/10 * * * *",
    parameters={"for_minutes": 1440},
    resident=True,
    description="The resident loop: embeds what waits within seconds, ships deletions, follows batch jobs. "
    "Every ten minutes the schedule looks whether it runs: a second one is cancelled, one that died is replaced.",
)

TABLE: tuple[Deployment, ...] = (
    NIGHTLY,
    TEND,
    # A run a minute would start a process a minute; the resident loop does the same for next to nothing. Give this
    # and `batch-lane` a cron of their own ("*/5 * * * *") only where no resident loop runs.
    Deployment(
        name="embed",
        flow="flows.embed:embed",
        description="Bring the indexes up to date now, for some tenants or all.",
    ),
    Deployment(
        name="batch-lane",
        flow="flows.batch_lane:batch_lane",
        description="Look at every open batch job of a provider once, and keep what came.",
    ),
    Deployment(
        name="mend",
        flow="flows.mend:mend",
        description="Compare every store with the record, and bring what differs back in step. Part of nightly.",
    ),
    Deployment(
        name="relay",
        flow="flows.relay:relay",
        description="Tell what happened to memories to each tenant's stream of events.",
    ),
    Deployment(
        name="quality",
        flow="flows.quality:quality",
        description="Judge samples of what was imported, embedded and archived. Part of nightly.",
    ),
    Deployment(
        name="archive",
        flow="flows.archive:archive",
        description="Move memories that rest into the object store, by policy. Part of nightly.",
    ),
    Deployment(
        name="reap",
        flow="flows.reap:reap",
        description="Delete what is at its end, and remove what was deleted from every store. Part of nightly.",
    ),
    Deployment(
        name="snapshot",
        flow="flows.snapshot:snapshot",
        description="Write the vectors that changed to the object store. Part of nightly.",
    ),
    Deployment(
        name="rotate",
        flow="flows.rotate:rotate",
        description="Carry keys, and what is sealed under them, over to those in use.",
    ),
    Deployment(
        name="reindex",
        flow="flows.reindex:reindex",
        once=False,
        description="Move tenants to another embedding model, with no downtime. A run that stopped is taken up.",
    ),
    Deployment(
        name="recover",
        flow="flows.recover:recover",
        once=False,
        description="Rebuild a lost or damaged index from the record and the snapshots.",
    ),
    Deployment(
        name="erase",
        flow="flows.erase:erase",
        once=False,
        description="Erase for good, out of every store, for a person's right. Cannot be undone. Ends with a receipt.",
    ),
)
