"""What came back of a batch job, sorted by what becomes of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from core.errors import Refused
from core.ports import BatchResult
from core.record.batch_jobs import Results


def sorted_out(results: Sequence[BatchResult]) -> Results:
    """Results by what becomes of their items. Keys that are none of ours are left out; the first of a key counts."""
    sorted_results = Results()
    for item, result in _ours(results):
        if item in sorted_results:
            continue
        if result.vector is not None:
            sorted_results.vectors[item] = result.vector
            sorted_results.tokens[item] = result.tokens
        elif isinstance(result.problem, Refused):
            sorted_results.refused[item] = result.problem.message
        else:
            sorted_results.again.add(item)
    return sorted_results


def _ours(results: Sequence[BatchResult]) -> Iterator[tuple[uuid.UUID, BatchResult]]:
    for result in results:
        try:
            yield uuid.UUID(hex=result.key), result
        except ValueError:
            continue
