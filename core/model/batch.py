"""Batch jobs as the record knows them: texts at a provider that answers within a day, at a lower price."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class JobState(StrEnum):
    """Where a job stands: preparing → submitted → running → ingested, or expired, failed, cancelled.

    `ingested` and `expired` ones have all, or part, of their vectors kept; a cancelled one what was ready by then.
    """

    PREPARING = "preparing"
    SUBMITTED = "submitted"
    RUNNING = "running"
    CANCELLING = "cancelling"
    INGESTED = "ingested"
    EXPIRED = "expired"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """One job of one generation.

    `inputs` and `tokens` (estimated) were put in, `done` is what the provider says it has, and in the end `kept`
    inputs have a vector, `refused` ones were set aside and the entries of the rest go `again`. `overdue`: by the
    database's clock the deadline has passed, and its entries go the normal way.
    """

    tenant: str
    id: uuid.UUID
    generation: int
    provider: str
    model: str
    state: JobState
    created_at: datetime
    deadline: datetime
    inputs: int = 0
    tokens: int = 0
    provider_job: str | None = None
    submitted_at: datetime | None = None
    polled_at: datetime | None = None
    done: int = 0
    ended_at: datetime | None = None
    kept: int = 0
    refused: int = 0
    again: int = 0
    note: str | None = None
    overdue: bool = False

    @property
    def name(self) -> str:
        """What the provider knows it by: opaque, and a file's name."""
        return job_name(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A text that needs a vector: its hash, and the memories (at their versions) that wait for it."""

    text_hash: str
    text: str = field(repr=False)
    versions: Mapping[str, int]


def job_name(job: uuid.UUID) -> str:
    """What a provider knows a job by."""
    return f"memory-{job.hex}.jsonl"
