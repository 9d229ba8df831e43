"""What a check of the installation found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """`unknown`: it could not be looked at, which is never the same as fine."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at: of which store, what it is, and what to do about it if it is not fine."""

    store: str
    check: str
    verdict: Verdict
    detail: str
    advice: str = ""
