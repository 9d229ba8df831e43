"""Record versions: an epoch in the high bits, a count in the low ones.

The epoch is raised after a restore from backup, so that an index which remembers versions the
restored record never had cannot outrank it. Vector indexes compare integers as 64-bit floats, so
every version the engine hands out stays below 2**53 (DESIGN.md section 4).
"""

from __future__ import annotations

EPOCH_BITS = 40
EPOCH_UNIT = 1 << EPOCH_BITS
CEILING = 1 << 53
MAX_EPOCH = CEILING // EPOCH_UNIT - 1


def first_version(epoch: int) -> int:
    """The version of a record written for the first time in `epoch` (0 ≤ epoch ≤ MAX_EPOCH)."""
    if not 0 <= epoch <= MAX_EPOCH:
        raise ValueError(f"epoch {epoch} is outside 0..{MAX_EPOCH}")
    return epoch * EPOCH_UNIT + 1


def next_version(current: int, epoch: int) -> int:
    """The version after `current`: always greater, and never below the first of `epoch`."""
    following = max(current + 1, first_version(epoch))
    if following >= CEILING:
        raise ValueError("versions are used up: they must stay below 2**53")
    return following


def epoch_of(version: int) -> int:
    """The epoch a version was written in."""
    return version // EPOCH_UNIT
