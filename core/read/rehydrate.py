"""Archived and sealed memories on their way out: whole, in the clear, or honestly said not to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from core.errors import EngineError, NotFound
from core.model.memory import Memory
from core.read.access import AccessLog
from core.record.contents import Contents

Name = TypeVar("Name")


class Rehydrate:
    """Gives readers memories with their whole content, and notes that they were read. Thread-safe."""

    def __init__(self, contents: Contents, access: AccessLog) -> None:
        self._contents = contents
        self._access = access

    def all(self, memories: Mapping[Name, Memory]) -> dict[Name, Memory]:
        """Memories somebody asked for by id, whole. What is gone with its key is left out.

        Raises Unavailable when an object cannot be reached, BadAnswer when one is damaged, Misconfigured: half a
        content would look like all of it.
        """
        found, problems = self._contents.bring(memories)
        for problem in problems.values():
            if not isinstance(problem, NotFound):
                raise problem
        self._note(found.values())
        return found

    def hits(self, memories: Mapping[Name, Memory]) -> tuple[dict[Name, Memory], str | None]:
        """Memories a search found, whole where that can be; and what is to be said if it cannot.

        One whose object cannot be had keeps its beginning, with `stored` set; one that cannot be opened is left out.
        """
        found, problems = self._contents.bring(memories)
        opened: dict[Name, Memory] = {}
        for name in problems:
            if memories[name].stored is not None:
                with suppress(EngineError):  # what is wrong is among the problems already
                    opened[name] = self._contents.vault.opened(memories[name])
        self._note(found.values())
        if not problems:
            return found, None
        reasons = sorted({problem.message for problem in problems.values()})
        return found | opened, f"{len(problems)} hits are not whole: {'; '.join(reasons)}"

    def listed(self, memories: Iterable[Memory]) -> list[Memory]:
        """Memories of a list, in the clear; archived ones with their beginning only."""
        return list(self._contents.vault.all_opened({one.id: one for one in memories})[0].values())

    def _note(self, memories: Iterable[Memory]) -> None:
        ids: dict[str, list[str]] = {}
        for memory in memories:
            ids.setdefault(memory.tenant, []).append(memory.id)
        for tenant, named in ids.items():
            self._access.note(tenant, named)
