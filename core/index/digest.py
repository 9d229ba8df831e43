"""Digests of an index: a hash of each (point, version), summed per stretch of point ids, in whatever order.

It is the hash the record's own figures are made with (`uuid_hash_extended` of PostgreSQL: Bob Jenkins' lookup3 over
the sixteen bytes of the id, the version as its seed), so that both sides can be compared without reading the record.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from core.model.drift import STRETCHES
from core.model.point import Stamp

WHOLE = 1 << 64
_BLOCK = 50_000
_WORD = 0xFFFFFFFF
_START = (0x9E3779B9 + 16 + 3923095) & _WORD
_MIX = (4, 6, 8, 16, 19, 4)

Words = NDArray[np.uint32]


def stretch_digests(points: Iterable[tuple[uuid.UUID, Stamp]], last: uuid.UUID) -> dict[int, tuple[int, int]]:
    """Number and digest (modulo 2^64) of the points up to `last` in each stretch that has some, in bounded memory."""
    counts = np.zeros(STRETCHES, dtype=np.int64)
    sums = np.zeros(STRETCHES, dtype=np.uint64)
    for ids, versions in _blocks(points, last):
        stretches = np.frombuffer(ids, dtype=np.uint8)[::16].astype(np.intp)
        hashes = point_hashes(ids, np.asarray(versions, dtype=np.uint64))
        counts += np.bincount(stretches, minlength=STRETCHES)
        np.add.at(sums, stretches, hashes)
    return {int(one): (int(counts[one]), int(sums[one])) for one in np.flatnonzero(counts)}


def point_hashes(ids: bytes, versions: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The hash of each id (sixteen bytes each, one after another) with its version, which is not 0."""
    words = np.frombuffer(ids, dtype="<u4").reshape(-1, 4)
    first, second, third = (np.full(len(versions), _START, dtype=np.uint32) for _ in range(3))
    first = first + (versions >> np.uint64(32)).astype(np.uint32)
    second = second + (versions & np.uint64(_WORD)).astype(np.uint32)
    first, second, third = _mixed(first, second, third)
    first, second, third = _mixed(first + words[:, 0], second + words[:, 1], third + words[:, 2])
    second, third = _ended(first + words[:, 3], second, third)
    return (second.astype(np.uint64) << np.uint64(32)) | third.astype(np.uint64)


def _blocks(points: Iterable[tuple[uuid.UUID, Stamp]], last: uuid.UUID) -> Iterator[tuple[bytes, Sequence[int]]]:
    walk = iter(points)
    while block := list(islice(walk, _BLOCK)):
        inside = block if block[-1][0] <= last else [one for one in block if one[0] <= last]
        if inside:
            yield b"".join([point.bytes for point, _ in inside]), [stamp.version for _, stamp in inside]
        if len(inside) < len(block):
            return


def _mixed(first: Words, second: Words, third: Words) -> tuple[Words, Words, Words]:
    for turn in _MIX:
        first = (first - third) ^ _turned(third, turn)
        third = third + second
        first, second, third = second, third, first
    return first, second, third


def _ended(first: Words, second: Words, third: Words) -> tuple[Words, Words]:
    third = (third ^ second) - _turned(second, 14)
    first = (first ^ third) - _turned(third, 11)
    second = (second ^ first) - _turned(first, 25)
    third = (third ^ second) - _turned(second, 16)
    first = (first ^ third) - _turned(third, 4)
    second = (second ^ first) - _turned(first, 14)
    third = (third ^ second) - _turned(second, 24)
    return second, third


def _turned(words: Words, by: int) -> Words:
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))
