"""Collections and aliases as FACTS says a Qdrant server keeps them, and nothing else of it."""

from __future__ import annotations

import threading
from typing import Any


class QdrantNames:
    def __init__(self) -> None:
        self.names = {"c.g1", "c.g2", "c.g3"}
        self.aliases: dict[str, str] = {}
        self.dies_after: int | None = None  # how many actions of an alias request are done before the server dies
        self._turn = threading.Lock()

    def change(self, actions: list[dict[str, Any]]) -> str:
        """One action after another under a lock; what was done before one failed stays. Says what that one lacked."""
        with self._turn:
            return next(filter(None, map(self._done, actions[: self.dies_after])), "")

    def _done(self, action: dict[str, Any]) -> str:
        if renamed := action.get("rename_alias"):
            if renamed["old_alias_name"] not in self.aliases:
                return str(renamed["old_alias_name"])
            self.aliases[renamed["new_alias_name"]] = self.aliases.pop(renamed["old_alias_name"])
        elif made := action.get("create_alias"):
            if made["collection_name"] not in self.names:
                return str(made["collection_name"])
            self.aliases[made["alias_name"]] = made["collection_name"]
        else:
            self.aliases.pop(action["delete_alias"]["alias_name"], None)
        return ""

    def listed(self) -> dict[str, Any]:
        """The answers to the two questions about all names."""
        aliases = [{"alias_name": name, "collection_name": target} for name, target in self.aliases.items()]
        return {"/aliases": {"aliases": aliases}, "/collections": {"collections": [{"name": n} for n in self.names]}}
