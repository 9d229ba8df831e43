"""The quality chore: samples of what was imported, embedded and archived, judged by suites. It changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from core.errors import EngineError
from core.index.frames import Rows, Sampling, verdict_rows
from core.model.generation import Generation, GenerationState
from core.model.quality import Checker, Frame, Suite, SuiteVerdict, frame_of
from core.model.reindex import GateVerdict
from core.record.building import statuses
from core.record.kept import expected

LEAST_OF_A_TENANT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Tenants whose samples are judged together."""

    tenants: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the suites said, what there was nothing to check of, and where the results can be read."""

    verdicts: tuple[SuiteVerdict, ...] = ()
    nothing: tuple[Suite, ...] = ()
    tenants: int = 0
    docs: str = ""

    @property
    def passed(self) -> bool:
        """Whatever was due passed."""
        return all(one.passed for one in self.verdicts)

    @property
    def reasons(self) -> str:
        """What failed, by suite."""
        return "; ".join(f"{one.suite}: {one.reasons}" for one in self.verdicts if not one.passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityWork:
    """What a step works with. `rows` bounds a suite's sample over all of its tenants together."""

    sampling: Sampling
    checker: Checker
    rows: int
    check: Callable[[], None] = lambda: None


def plan(tenants: Sequence[str], most: int, chance: random.Random) -> list[Portion]:
    """At most `most` of the tenants, drawn evenly: the next run draws others. None: nothing to do."""
    drawn = sorted(tenants if len(tenants) <= most else chance.sample(list(tenants), most))
    return [Portion(tenants=tuple(drawn))] if drawn else []


def step(work: QualityWork, portion: Portion, now: datetime) -> Report:
    """Judge samples of the portion's tenants. A store that is out of reach fails its suite, and no other."""
    sampling = _share(work, len(portion.tenants))
    due = _due(sampling, portion.tenants)
    frames = [
        _frame(work, Suite.IMPORTED, due[Suite.IMPORTED], sampling.imported),
        _frame(work, Suite.EMBEDDED, due[Suite.EMBEDDED], sampling.embedded),
        _waiting_for_a_swap(sampling, portion.tenants),
        _frame(work, Suite.ARCHIVE, portion.tenants, sampling.archived, optional=True),
    ]
    report = _judged(work, [one for one in frames if one.due or one.problems], now)
    nothing = tuple(one.suite for one in frames if not one.due and not one.problems)
    return replace(report, nothing=nothing, tenants=len(portion.tenants))


def judge_generation(work: QualityWork, generation: Generation, verdict: GateVerdict | None, now: datetime) -> Report:
    """Judge one generation before it is swapped in: what its gate said, and a sample of its points."""
    tenant, sampling = generation.tenant, _share(work, 1)
    gate = frame_of(Suite.GENERATION, verdict_rows(tenant, verdict), [tenant])
    points = _frame(work, Suite.EMBEDDED, [tenant], lambda _: sampling.embedded(tenant, generation))
    return replace(_judged(work, [gate, points], now), tenants=1)


def _share(work: QualityWork, tenants: int) -> Sampling:
    each = max(LEAST_OF_A_TENANT, work.rows // max(1, tenants))
    return replace(work.sampling, limit=min(work.rows, each))


def _judged(work: QualityWork, frames: Sequence[Frame], now: datetime) -> Report:
    if not frames:
        return Report()
    verdicts, docs = work.checker.judge(frames, now)
    return Report(verdicts=tuple(verdicts), docs=docs)


def _frame(
    work: QualityWork, suite: Suite, tenants: Sequence[str], rows_of: Callable[[str], Rows], *, optional: bool = False
) -> Frame:
    """The tenants' rows; `optional`: a tenant without any is not due."""
    rows: Rows = []
    problems: dict[str, str] = {}
    due: list[str] = []
    for tenant in tenants:
        work.check()
        try:
            found = rows_of(tenant)
        except EngineError as problem:
            problems[tenant] = problem.message
            continue
        rows += found
        due += [tenant] if found or not optional else []
    return frame_of(suite, rows, due, problems)


def _due(sampling: Sampling, tenants: Sequence[str]) -> Mapping[Suite, list[str]]:
    """Whose records and points there must be some of, by counts of their own."""
    found = expected(sampling.database, list(tenants), len(tenants))
    return {
        Suite.IMPORTED: [one.generation.tenant for one in found if one.wanted],
        Suite.EMBEDDED: [one.generation.tenant for one in found if one.wanted > one.waiting],
    }


def _waiting_for_a_swap(sampling: Sampling, tenants: Sequence[str]) -> Frame:
    found = [one for one in statuses(sampling.database, tenants) if one.state is GenerationState.VERIFIED]
    rows = [row for one in found for row in verdict_rows(one.tenant, one.verdict)]
    return frame_of(Suite.GENERATION, rows, [one.tenant for one in found])
