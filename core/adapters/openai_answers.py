"""Reading a provider's answer of embeddings. Nothing in it is believed: count, order, width and values are checked.

Read from the bytes and not through the client library's models, which take what comes and build an object
for every row.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.errors import BadAnswer
from core.model.point import Vector


@dataclass(frozen=True, slots=True)
class Answer:
    """Vectors in the order of the texts, the tokens the provider counted (None: it does not say), its model's name."""

    vectors: Vector
    tokens: int | None
    model: str


def read_answer(body: bytes, *, count: int, width: int, provider: str) -> Answer:
    """What an answer to `count` texts holds, as it is (not normalised).

    Raises BadAnswer. A row that cannot be used among others that can is named by `index`; with several of
    them, the first. No row is named when the answer as a whole is not what was asked for.
    """
    return answer_of(_object(body, provider), count=count, width=width, provider=provider)


def answer_of(told: dict[str, Any], *, count: int, width: int, provider: str) -> Answer:
    """As `read_answer`, of an answer that is JSON already."""
    rows = [_row(value) for value in _placed(told.get("data"), count, provider)]
    _check_widths([None if row is None else len(row) for row in rows], width, provider)
    usable = [row is not None and bool(np.isfinite(row).all()) and bool(row.any()) for row in rows]
    if not all(usable):
        raise _unusable(usable.index(False), provider, named=any(usable) or count == 1)
    vectors = np.stack([row for row in rows if row is not None])
    return Answer(vectors, _tokens(told.get("usage")), str(told.get("model", "")))


def normalised(vectors: Vector) -> Vector:
    """Rows of length one, of rows that are finite and not zero."""
    # In double precision: the squares of what is very small or large would vanish or overflow in single.
    exact = vectors.astype(np.float64)
    scaled: Vector = (exact / np.linalg.norm(exact, axis=1, keepdims=True)).astype(np.float32)
    return scaled


def _object(body: bytes, provider: str) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise BadAnswer(f"{provider} answered something that is no JSON object")
    return told


def _placed(data: Any, count: int, provider: str) -> list[Any]:
    """The value of each text's embedding, by the answer's `index`.

    Gemini leaves out an index of 0, as protocol buffers do. More than one without is refused like any other
    number that comes twice, so that no order is ever guessed.
    """
    if not isinstance(data, list):
        raise BadAnswer(f"{provider} answered without any list of embeddings")
    if len(data) != count:
        raise BadAnswer(f"{provider} answered {len(data)} embeddings to {count} texts")
    placed: dict[int, Any] = {}
    for entry in data:
        index = entry.get("index", 0) if isinstance(entry, dict) else None
        if type(index) is not int or not 0 <= index < count or index in placed:
            raise BadAnswer(f"{provider} answered an embedding without an index of its own among the texts'")
        placed[index] = entry.get("embedding")
    return [placed[index] for index in range(count)]


def _row(value: Any) -> Vector | None:
    """Numbers from a list, or from little-endian float32 in base64; None: neither."""
    try:
        if isinstance(value, str):
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float32)
        numbers = np.array(value) if isinstance(value, list) else None
    except (ValueError, TypeError):
        return None
    if numbers is None or numbers.ndim != 1 or numbers.dtype.kind not in "fiu":
        return None
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is found
        return numbers.astype(np.float32)


def _check_widths(widths: list[int | None], width: int, provider: str) -> None:
    """Raises BadAnswer at the first row of another width; it is named if others fit."""
    wrong = [index for index, found in enumerate(widths) if found is not None and found != width]
    if wrong:
        message = f"{provider} answered an embedding of {widths[wrong[0]]} numbers where {width} were due"
        raise BadAnswer(message, **(_place(wrong[0]) if width in widths else {}))


def _unusable(index: int, provider: str, *, named: bool) -> BadAnswer:
    if named:
        return BadAnswer(f"{provider} answered zeros, or what is no number, for a text", **_place(index))
    return BadAnswer(f"{provider} answered zeros, or what is no number, for every text")


def _place(index: int) -> dict[str, Any]:
    return {"index": index, "where": f"texts[{index}]"}


def _tokens(usage: Any) -> int | None:
    """What was counted. Zero is not believed: no text that is sent is blank."""
    for name in ("prompt_tokens", "total_tokens"):
        found = usage.get(name) if isinstance(usage, dict) else None
        if type(found) is int and found > 0:
            return found
    return None
