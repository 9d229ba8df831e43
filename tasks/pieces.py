"""A chore's work a bounded piece at a time: until a tenant is done, and how a run over many tenants ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

from prefect import State
from prefect.states import Completed, Failed

from core.errors import EngineError, Permanent
from tasks.seen import row_of, show_table


class Continued(Protocol):
    """A report that says where to go on (None: there is nothing left), and can be summed up."""

    @property
    def next(self) -> Any | None:
        """The portion that follows."""

    def plus(self, other: Self) -> Self:
        """This report with another one's figures, and where that one ended."""


Report = TypeVar("Report")
Piece = TypeVar("Piece", bound=Continued)


def came_of(state: State[Any], kind: type[Report], what: str = "the task") -> Report | EngineError:
    """The report a task ended with, or its error; an end with neither, such as a cancelled one, is Permanent."""
    result = state.result(raise_on_failure=False)
    return result if isinstance(result, kind | EngineError) else Permanent(f"{what} ended as {state.name}")


def all_of(
    portion: Any, most: int, do: Callable[[Any], State[Any]], kind: type[Piece]
) -> tuple[list[Piece], EngineError | None]:
    """Do task after task from a portion on, `most` of them: their reports, and what ended it early, if anything."""
    done: list[Piece] = []
    following: Any | None = portion
    for _ in range(most):
        if following is None:
            break
        found = came_of(do(following), kind)
        if isinstance(found, EngineError):
            return done, found
        done.append(found)
        following = found.next
    return done, None


def summed(begun: Piece, most: int, do: Callable[[Any], Piece]) -> Piece:
    """A report that says where to begin, with those of the next `most` steps, or of fewer when there is no next."""
    for _ in range(most):
        if begun.next is None:
            break
        begun = begun.plus(do(begun.next))
    return begun


def ended(
    chore: str, reports: list[Report], problems: Mapping[str, EngineError], told: Sequence[str]
) -> State[list[Report]]:
    """How a run over tenants ends: Failed by the type of the first problem, with the reports in its details.

    The reports are shown as the table `CHORE-report` of the run, with what was told.
    """
    said = [*(f"{tenant} failed: {problem.message}" for tenant, problem in problems.items()), *told]
    show_table(f"{chore}-report", [row_of(one) for one in reports], "; ".join(said) or "completed")
    if not problems:
        return Completed(message=", ".join(["completed", *said]), data=reports)
    message = "; ".join(said)
    return Failed(message=message, data=type(next(iter(problems.values())))(message, reports=reports))
