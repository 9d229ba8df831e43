"""Dropping generations in the record: begun, so that nothing of it is claimed any more, then ended or undone."""

from __future__ import annotations

from core.errors import Conflict
from core.model.generation import Generation, GenerationState
from core.record.database import Database
from core.record.generations import generation_of, generations
from core.record.queries import query

PIECE = 5_000
MOST_PIECES = 10_000
DROPPABLE = frozenset({GenerationState.RETIRING, GenerationState.ABORTED})


class Removals:
    """What is dropped, and how far that is. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self) -> list[Generation]:
        """Generations whose time has come."""
        with self._database.across() as session:
            return [generation_of(row) for row in session.execute(query("generation_due")).fetchall()]

    def named(self, tenant: str, number: int) -> Generation | None:
        """One generation of a tenant, whatever its state."""
        with self._database.tenant(tenant) as session:
            return next((one for one in generations(session, tenant) if one.number == number), None)

    def begin(self, generation: Generation) -> None:
        """From here on nothing of it is claimed. Raises Conflict for one that serves, is built, or is being swapped."""
        named = _of(generation)
        with self._database.tenant(generation.tenant) as session:
            # Locked first: what the next statement sees of swaps is what was committed before the lock came.
            session.execute(query("generation_lock"), named)
            begun = session.execute(query("generation_begin_drop"), named).fetchone()
        if begun is None:
            now = self.named(generation.tenant, generation.number)
            stands = "gone" if now is None else now.state.value
            raise Conflict(f"generation {generation.number} of {generation.tenant} is {stands}: it is not dropped")

    def undo(self, generation: Generation) -> None:
        """It stays after all. Nothing was lost: writers have enqueued for it all the time."""
        with self._database.tenant(generation.tenant) as session:
            session.execute(query("generation_undo_drop"), _of(generation))

    def leased(self, generation: Generation) -> int:
        """Entries of it that some worker still holds, and may be writing."""
        with self._database.tenant(generation.tenant) as session:
            row = session.execute(query("generation_leased"), _of(generation)).fetchone()
        return 0 if row is None else int(row["leased"])

    def end(self, generation: Generation) -> None:
        """Its collection is gone: under the barrier, so that no writer lists it any more."""
        with self._database.tenant(generation.tenant) as session:
            session.execute(query("generation_barrier"), {"tenant": generation.tenant})
            session.execute(query("generation_drop"), _of(generation))
        self.forget(generation)

    def forget(self, generation: Generation) -> None:
        """Remove what is left of the work of a dropped generation, in committed pieces. It can be done again."""
        for _ in range(MOST_PIECES):
            with self._database.tenant(generation.tenant) as session:
                gone = session.execute(query("generation_forget"), {**_of(generation), "limit": PIECE}).rowcount
            if gone < PIECE:
                return


def _of(generation: Generation) -> dict[str, object]:
    return {"tenant": generation.tenant, "number": generation.number}
