"""Zstandard (RFC 8878) with a numbered dictionary: what is alike in all archived objects is not stored in each.

A dictionary trained on memories would keep pieces of them beyond their erasure, and show one tenant's to another.
So it is trained on the project's own sample corpora (`python -m tests.bench.dictionary`), and what it saves is
mostly the form of an object and the words of everyday language. Each frame names its dictionary by number, which is
why a dictionary, once released, never changes: a better one gets the next number.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import zstandard

from core.errors import BadAnswer, Misconfigured

NEWEST = 1
LEVEL = 12
MAX_BYTES = 64 << 20  # of a decompressed object; a memory with all its metadata stays far below
_FOLDER = files("core.model").joinpath("dictionaries")


def compress(data: bytes, dictionary: int = NEWEST) -> bytes:
    """The data as one frame with a checksum of its own; dictionary 0: without one."""
    chosen = _dictionary(dictionary) if dictionary else None
    compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=chosen, write_checksum=True, write_content_size=True)
    return compressor.compress(data)


def decompress(frame: bytes) -> bytes:
    """What `compress` made a frame of. Raises BadAnswer for what is none, or not whole."""
    try:
        found = zstandard.get_frame_parameters(frame)
        if not found.content_size <= MAX_BYTES:
            raise BadAnswer("a compressed object is larger than any this engine writes")
        chosen = _dictionary(found.dict_id) if found.dict_id else None
        data = zstandard.ZstdDecompressor(dict_data=chosen).decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BadAnswer("a compressed object is damaged") from error
    return data


def dictionary_bytes(number: int) -> bytes:
    """A dictionary as it is released. Raises Misconfigured for one this release does not have."""
    try:
        return _FOLDER.joinpath(f"{number}.zdict").read_bytes()
    except FileNotFoundError:
        raise Misconfigured(f"an object was compressed with dictionary {number}, of a later release: upgrade") from None


@cache
def _dictionary(number: int) -> zstandard.ZstdCompressionDict:
    found = zstandard.ZstdCompressionDict(dictionary_bytes(number))
    found.precompute_compress(level=LEVEL)
    return found
