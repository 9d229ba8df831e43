"""What a failed call to an embedding provider means, by the error tree.

Decided by the status and by the names in the body (`code`, `type`, `param` and their like), never by its
sentences: those change, and can quote what was sent. For the same reason only short names are passed on.
"""

from __future__ import annotations

import json
import math
import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from core.errors import EngineError, Misconfigured, Overloaded, Refused, Unavailable

LONGEST_WAIT = 300.0  # seconds; a hint beyond this is an accident, or an attack
DEEPEST = 6  # gateways wrap the answers of those behind them, but not without end

_NAMES = frozenset({"code", "type", "status", "reason", "error_type"})
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,48}")
_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_AUTH = frozenset({"invalid_api_key", "api_key_invalid", "account_deactivated", "unauthenticated", "permission_denied"})
_MODEL = frozenset({"model_not_found", "deploymentnotfound", "invalid_model"})
_SIZE = frozenset(
    {
        "3210",  # Mistral: too many tokens overall
        "array_above_max_length",
        "context_length_exceeded",
        "max_tokens_exceeded",
        "max_tokens_per_request",
        "payload_too_large",
        "request_too_large",
        "string_above_max_length",
    }
)
# A value of these is the operator's, the same for every text.
_CHOSEN = frozenset({"model", "dimensions", "output_dimension", "encoding_format", "input_type"})
_ITEM = re.compile(r"(?:\$\.)?input(?:\[(\d{1,6})\]|\.(\d{1,6}))")
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")


def of_answer(
    status: int, headers: Mapping[str, str], body: bytes, *, provider: str, count: int, now: datetime
) -> EngineError:
    """The error of an HTTP answer that is no success, to a request of `count` texts. `headers` ignore case."""
    told = _parsed(body)
    names = _short_names(told)
    params = [param.lower() for param in _values(told, frozenset({"param"}))]
    said = ", ".join([f"HTTP {status}", *names_in(told)][:4])
    if wrong := _operators_part(status, frozenset(names), frozenset(params)):
        return Misconfigured(f"{provider} {_WORDS[wrong]} ({said})", reason=wrong, status=status)
    if status in (429, 503, 529):
        wait = retry_after(headers, now)
        hint = _delay_in(told) if wait is None else wait
        return Overloaded(f"{provider} asks for less ({said})", retry_after=hint, status=status)
    if status == 413 or (status in (400, 422) and not _SIZE.isdisjoint(names)):
        return Refused(f"{provider} says that the request is too big ({said})", reason="size", status=status)
    if status in (400, 422):
        index = _item(params, count)
        place: dict[str, Any] = {} if index is None else {"index": index, "where": f"texts[{index}]"}
        return Refused(f"{provider} refuses what was sent ({said})", status=status, **place)
    return Unavailable(f"{provider} failed ({said})", status=status)


def names_in(told: Any) -> list[str]:
    """The short names in an answer by which it says what is wrong, each once, outer ones first."""
    return list(dict.fromkeys(name for name in _short_names(told) if not name.isdecimal()))


def of_broken_call(cause: BaseException, provider: str) -> EngineError:
    """The error of a call that got no answer, or not all of it."""
    seen: BaseException | None = cause
    for _ in range(DEEPEST):
        if isinstance(seen, ssl.SSLCertVerificationError):
            return Misconfigured(f"{provider}'s certificate is not one we trust")
        if seen is None:
            break
        seen = seen.__cause__ or seen.__context__
    if "Timeout" in type(cause).__name__:
        return Unavailable(f"{provider} did not answer in time")
    return Unavailable(f"{provider} cannot be reached, or hung up")


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait as the headers ask for, from 0 to LONGEST_WAIT; None: they do not say, or nothing sensible.

    A date is taken against the answer's own Date, so that clocks that differ do no harm; without one against `now`.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    asked = headers.get("retry-after")
    seconds = _number(asked)
    if seconds is not None:
        return _bounded(seconds)
    until = _date(asked)
    return None if until is None else _bounded(max(0.0, (until - (_date(headers.get("date")) or now)).total_seconds()))


_WORDS = {
    "auth": "refuses our key, or what it may do",
    "model": "does not know the model, its options or the address",
    "quota": "says that the account is used up",
}


def _short_names(told: Any) -> list[str]:
    return [name.lower() for name in _values(told, _NAMES) if _NAME.fullmatch(name)]


def _operators_part(status: int, names: frozenset[str], params: frozenset[str]) -> str | None:
    """The reason why a person has to act, or None."""
    if status == 402 or (status < 500 and names & _QUOTA):
        return "quota"
    if status in (401, 403) or (status in (400, 429) and names & _AUTH):
        return "auth"
    if status in (400, 422) and (names & _MODEL or params & _CHOSEN):
        return "model"
    answered = {400, 408, 409, 413, 422, 424, 425, 429}  # what else there is below 500 means another address
    return "model" if status < 500 and status not in answered else None


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _values(told: Any, keys: frozenset[str], depth: int = 0) -> Iterator[str]:
    """Every text or whole number under one of these keys, outer ones first; what is echoed of ours is left out."""
    if depth > DEEPEST:
        return
    if isinstance(told, list):
        for part in told[:20]:
            yield from _values(part, keys, depth + 1)
    elif isinstance(told, dict):
        for key, value in told.items():
            if key in keys and isinstance(value, str | int):
                yield str(value)
        for key, value in told.items():
            if key != "input":
                yield from _values(value, keys, depth + 1)


def _item(params: list[str], count: int) -> int | None:
    """The text that a parameter such as `input[5]` names, or None."""
    for param in params:
        if found := _ITEM.fullmatch(param):
            index = int(found[1] or found[2])
            return index if index < count else None
    return None


def _delay_in(told: Any) -> float | None:
    """What Google's RetryInfo says, such as `"retryDelay": "34s"`."""
    for text in _values(told, frozenset({"retryDelay"})):
        if found := _DELAY.fullmatch(text):
            return _bounded(float(found[1]))
    return None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _date(text: str | None) -> datetime | None:
    try:
        date = None if text is None else parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date.replace(tzinfo=UTC) if date is not None and date.tzinfo is None else date


def _bounded(seconds: float) -> float | None:
    return min(seconds, LONGEST_WAIT) if seconds >= 0 and not math.isnan(seconds) else None
