"""One look at one generation: numbers, digests, walk, sample; then what is wrong is handed on, within the rails.

Memories go to the outbox and points to the queue of orphans: the one piece of code that writes an index does the rest.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.errors import NotFound
from core.index import drift_sample
from core.index.drift import Comparison
from core.model.coverage import INDEX
from core.model.drift import (
    SAMPLES,
    Depth,
    Found,
    Kind,
    Look,
    Span,
    StoreReport,
    Tally,
    Verdict,
    spans_of,
)
from core.model.generation import GenerationState
from core.record import drift
from core.record.backfill import Backfill
from core.record.drift import Figures
from core.record.orphans import Orphans

ENQUEUED = (Kind.MISSING, Kind.STALE, Kind.PAYLOAD)
REMOVED = (Kind.ORPHAN, Kind.AHEAD, Kind.VECTOR)
ENDED = (None, GenerationState.DROPPED, GenerationState.ABORTED)


@dataclass(frozen=True, slots=True)
class GenerationDrift:
    """Looks at one generation, whole or in part."""

    comparison: Comparison
    orphans: Orphans
    chance: random.Random

    def look(self, look: Look, depth: Depth, *, dry: bool) -> StoreReport:
        """What is wrong with it, and what was done about that. Raises Transient."""
        generation = self.comparison.generation
        before = self._figures()
        report = StoreReport(
            tenant=generation.tenant,
            store=INDEX,
            generation=generation.number,
            depth=depth,
            verdict=Verdict.UNSETTLED,
            records=before.records,
            dry=dry,
        )
        if before.state in ENDED:
            return replace(report, note="it was dropped or given up meanwhile")
        if before.recovering:
            return replace(report, verdict=Verdict.SKIPPED, note="it is being recovered")
        try:
            points = self.comparison.index.count(generation.collection)
            report = replace(report, points=points)
        except NotFound:
            return self._gone(report, before, 0)
        after = self._figures()
        if 2 * points < min(_due(before), _due(after)) and generation.state is not GenerationState.BUILDING:
            return self._gone(report, after, points)
        if depth is Depth.COUNTS:
            told = self._by_numbers(report, before, after)
            if told is not None:
                return told
            report = replace(report, depth=Depth.DIGESTS)
        try:
            return self._compared(report, look, dry=dry)
        except NotFound:
            return self._gone(report, after, 0)

    def _figures(self) -> Figures:
        generation = self.comparison.generation
        return drift.figures(self.comparison.database, generation.tenant, generation.number)

    def _gone(self, report: StoreReport, figures: Figures, points: int) -> StoreReport:
        """The collection is not there, or holds less than half of what it should."""
        generation = self.comparison.generation
        if self._figures().state in ENDED:
            return replace(report, note="it was dropped or given up meanwhile")
        if _due(figures) == 0 or generation.state is GenerationState.BUILDING:
            return replace(report, points=points, note="nothing was embedded yet")
        live = generation.state is GenerationState.LIVE
        why = "for the recover chore" if live else "not the live one: build it anew, or drop it"
        missing = max(0, figures.records - points)
        found = Found(kind=Kind.GONE, found=missing, why=why, samples=(generation.collection,))
        return replace(report, verdict=Verdict.DRIFT, points=points, findings=(found,), recover=live)

    def _by_numbers(self, report: StoreReport, before: Figures, after: Figures) -> StoreReport | None:
        """What the numbers say; None: they want a closer look."""
        assert report.points is not None  # noqa: S101  it was counted
        if self.comparison.generation.state is GenerationState.BUILDING:
            return replace(report, note="it is being built")
        gap = abs(report.points - after.records)
        if gap == 0:
            return replace(report, verdict=Verdict.CLEAN, records=after.records)
        steady = before == after and after.waiting == 0
        under_way = before.waiting + after.waiting + abs(after.records - before.records)
        if steady or (gap > under_way and before.digest == after.digest):
            return None
        if self._unsettled_for_long():
            return None
        return replace(report, unsettled=gap, note=f"{gap} apart, with {under_way} under way")

    def _unsettled_for_long(self) -> bool:
        """Whether numbers have not agreed for a while, and nobody has compared by digests lately."""
        generation, rules = self.comparison.generation, self.comparison.rules
        state = drift.states(self.comparison.database, generation.tenant).get((INDEX, generation.number))
        if state is None or state.unsettled_for is None or state.unsettled_for <= rules.patience:
            return False
        return state.compared_ago is None or state.compared_ago > rules.pause

    def _compared(self, report: StoreReport, look: Look, *, dry: bool) -> StoreReport:
        """Digests, or all of it, point by point; then repairs."""
        comparison, full = self.comparison, report.depth is Depth.FULL
        tally = Tally(most=max(1, comparison.rules.cap // look.parts))
        stretches = list(range(look.first, look.last + 1)) if full else comparison.disagreeing(look.first, look.last)

        def seen(agreeing: Sequence[bytes]) -> None:
            points = [uuid.UUID(bytes=one) for one in agreeing]
            drift_sample.look_over(comparison, points, tally)

        comparison.walk(spans_of(stretches), tally, seen if full else None)
        drift_sample.look_at(comparison, self._sample(look), tally, texts=True)
        wrong_figures = self._figures_checked(look, stretches, tally, full=full, dry=dry)
        now = self._figures()
        if now.state in ENDED or now.recovering:
            return replace(report, verdict=Verdict.SKIPPED, note="it was dropped or is being recovered meanwhile")
        findings, alarm = self._handed_on(tally, report.points or 0, look.parts, dry=dry)
        building = comparison.generation.state is GenerationState.BUILDING
        settled = tally.unsettled == 0 and tally.set_aside == 0 and not building
        verdict = Verdict.DRIFT if findings or wrong_figures else Verdict.CLEAN if settled else Verdict.UNSETTLED
        return replace(
            report,
            verdict=verdict,
            unsettled=tally.unsettled,
            set_aside=tally.set_aside,
            findings=(*findings, *wrong_figures),
            alarm=alarm,
            note="it is being built: what it was not fed yet is not judged" if building else "",
        )

    def _sample(self, look: Look) -> list[uuid.UUID]:
        """Some points of the piece, from a place drawn by lot on: ids are spread evenly."""
        comparison = self.comparison
        (span,) = spans_of(range(look.first, look.last + 1))
        start = uuid.UUID(int=self.chance.randrange(span.first.int, span.last.int + 1))
        tenant, most = comparison.generation.tenant, max(1, comparison.rules.sample // look.parts)
        rows = drift.page(comparison.database, tenant, Span(start, span.last), most)
        if len(rows) < most:
            rows += drift.page(comparison.database, tenant, Span(span.first, start), most - len(rows))
        return list(dict.fromkeys(uuid.UUID(bytes=point) for point, _ in rows))

    def _figures_checked(
        self, look: Look, stretches: Sequence[int], tally: Tally, *, full: bool, dry: bool
    ) -> tuple[Found, ...]:
        """Digests that disagree where no point does: then the record's own figures are wrong, and are counted anew."""
        quiet = tally.total == 0 and tally.unsettled == 0 and tally.set_aside == 0
        if not full and not (stretches and quiet):
            return ()
        database, tenant = self.comparison.database, self.comparison.generation.tenant
        wrong = drift.recount(database, tenant, look.first, look.last, dry=dry)
        if not wrong:
            return ()
        why = "dry run" if dry else ""
        return (Found(kind=Kind.FIGURES, found=len(wrong), repaired=0 if dry else len(wrong), why=why),)

    def _handed_on(self, tally: Tally, points: int, parts: int, *, dry: bool) -> tuple[list[Found], str]:
        """Findings, with what was handed on of each kind; and why a person has to look, if so."""
        rules, generation = self.comparison.rules, self.comparison.generation
        ids = [name for kind in ENQUEUED for name in tally.ids.get(kind, ())][: tally.most]
        doomed = sum(tally.counts.get(kind, 0) for kind in REMOVED)
        allowed = max(rules.removals, int(points * rules.removed_share)) // parts
        too_many = doomed > allowed
        if not dry:
            if ids:
                Backfill(self.comparison.database).enqueue(generation, list(dict.fromkeys(ids)))
            if doomed and not too_many:
                self.orphans.add(generation, tally.removals)
        findings, room = [], len(ids)
        for kind, count in tally.counts.items():
            taken = 0 if dry else min(room, len(tally.ids[kind])) if kind in ENQUEUED else 0 if too_many else count
            room -= taken if kind in ENQUEUED else 0
            why = "dry run" if dry else "more than a run may take out" if kind in REMOVED else "beyond the cap of a run"
            samples = tuple(tally.ids[kind])[:SAMPLES]
            findings.append(
                Found(kind=kind, found=count, repaired=taken, why=why if taken < count else "", samples=samples)
            )
        alarms = []
        if too_many:
            alarms.append(
                f"{doomed} points would have to go, {allowed} may: nothing was taken out. "
                "Was PostgreSQL restored from a backup? Then: memory recover --restored"
            )
        if sum(tally.counts.get(kind, 0) for kind in ENQUEUED) > tally.most:
            alarms.append(f"more is wrong than the {tally.most} a run may have done again: run it again")
        return findings, "; ".join(alarms)


def _due(figures: Figures) -> int:
    """How many points there should be by now: what waits, or was set aside, is not due."""
    return max(0, figures.records - figures.waiting)
