"""The named queries: one file each below `queries/`, read once.

The first line of a file is `-- as: app` or `-- as: worker`, the role it runs under (or `-- as: owner`,
whoever connects); tests EXPLAIN every query under that role on a migrated database.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import LiteralString

_FOLDER = files("core.record").joinpath("queries")


@cache
def query(name: str) -> LiteralString:
    """Text of the query `name`. Raises FileNotFoundError for a name that does not exist."""
    # Our own packaged files are as trusted as a literal in the code.
    return _FOLDER.joinpath(f"{name}.sql").read_text(encoding="utf-8")


def query_names() -> list[str]:
    """Names of all queries, sorted."""
    return sorted(entry.name.removesuffix(".sql") for entry in _FOLDER.iterdir() if entry.name.endswith(".sql"))
