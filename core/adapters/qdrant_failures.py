"""What a failed call to a Qdrant server means, by the error tree.

Texts of the server can quote what was sent, so none is passed on but the rule of strict mode it names.
Calls that failed without an answer may have been done; every write is guarded, so repeating one is safe.
"""

from __future__ import annotations

import json
import re
import ssl

from core.errors import BadAnswer, Conflict, EngineError, Misconfigured, NotFound, Overloaded, Refused, Unavailable

# What the server says of strict mode, with nothing in it but names of fields and limits, and numbers.
_STRICT = [
    re.compile(r'Index required but not found for \\?"[\w.]{1,64}\\?"'),
    re.compile(r'Limit exceeded \d+ > \d+ for \\?"[\w ]{1,64}\\?"', re.IGNORECASE),
    re.compile(r"(Exact search|Fullscan|Search oversampling|Oversampling)[\w ]{0,60}(disabled|not enabled|forbidden)"),
    re.compile(r"Max (vector|payload) storage size limit of \d+ \w+ reached"),
    re.compile(r"Max points count limit of \d+ reached"),
]
_BY_CODE: dict[str, type[EngineError]] = {
    "NOT_FOUND": NotFound,
    "ALREADY_EXISTS": Conflict,
    "UNAUTHENTICATED": Misconfigured,
    "PERMISSION_DENIED": Misconfigured,
    "UNIMPLEMENTED": Misconfigured,
    "INVALID_ARGUMENT": Refused,
    "FAILED_PRECONDITION": Refused,
    "OUT_OF_RANGE": Refused,
    "RESOURCE_EXHAUSTED": Overloaded,
    "DATA_LOSS": BadAnswer,
}
_TLS = re.compile(r"certificate|CERT_|SSL_ERROR|ssl handshake", re.IGNORECASE)


def of_status(status: int, body: bytes, name: str) -> EngineError:
    """The error of an HTTP answer on collection or alias `name`."""
    if (rule := _strict_rule(body.decode("utf-8", "replace"))) and status in (400, 403, 422):
        return Refused(f"the vector server's strict mode refuses this on {name}: {rule}", rule=rule)
    if status == 404:
        if not _speaks_qdrant(body):
            return Misconfigured("what answers at the vector server's address is no Qdrant server")
        return NotFound(f"there is no {name} on the vector server")
    if status in (401, 403):
        return Misconfigured(f"the vector server refuses our key for {name} (HTTP {status})")
    if status == 409:
        return Conflict(f"the vector server has {name} already")
    if status in (400, 413, 422):
        return Refused(f"the vector server refuses what was sent for {name} (HTTP {status})")
    if status == 429:
        return Overloaded("the vector server asks for less")
    if status == 408 or status >= 500:
        return Unavailable(f"the vector server failed on {name} (HTTP {status}); it may have been done")
    return Misconfigured(f"the vector server's address answers HTTP {status} on {name}")


def of_code(code: str, text: str, name: str) -> EngineError:
    """The error of a gRPC status on collection or alias `name`."""
    if (rule := _strict_rule(text)) and code in ("PERMISSION_DENIED", "INVALID_ARGUMENT"):
        return Refused(f"the vector server's strict mode refuses this on {name}: {rule}", rule=rule)
    if code == "UNAVAILABLE" and _TLS.search(text):
        return Misconfigured("no secure connection to the vector server: certificates do not fit")
    kind = _BY_CODE.get(code, Unavailable)
    return kind(f"the vector server answered {code} on {name}")


def of_broken_call(cause: BaseException, name: str) -> EngineError:
    """The error of a call over HTTP that got no answer, or none that could be read."""
    if isinstance(cause, ValueError):
        return BadAnswer(f"the vector server's answer on {name} cannot be read")
    if _has_tls_trouble(cause):
        return Misconfigured("no secure connection to the vector server: certificates or protocol do not fit")
    if type(cause).__name__ in ("UnsupportedProtocol", "InvalidURL", "LocalProtocolError"):
        return Misconfigured("the vector server's address or key cannot be used")
    if "Timeout" in type(cause).__name__:
        return Unavailable(f"the vector server did not answer in time on {name}; it may have been done")
    return Unavailable(f"the vector server cannot be reached, or hung up on {name}; it may have been done")


def of_bad_value(error: Exception, name: str) -> EngineError:
    """The error of a value the client library will not send; its local mode says everything this way."""
    if isinstance(error, json.JSONDecodeError):
        return BadAnswer(f"the vector server's answer on {name} cannot be read")
    text = str(error) if type(error) is ValueError else ""
    if re.fullmatch(r"(Collection|Alias) .+ (not found|does not exist)", text):
        return NotFound(f"there is no {name} on the vector server")
    if re.fullmatch(r"(Collection|Alias) .+ already exists", text):
        return Conflict(f"the vector server has {name} already")
    return Refused(f"the vector server cannot take what was to be sent for {name}")


def _strict_rule(text: str) -> str:
    found = next(filter(None, (pattern.search(text) for pattern in _STRICT)), None)
    return found[0].replace("\\", "") if found else ""


def _speaks_qdrant(body: bytes) -> bool:
    try:
        answer = json.loads(body)
    except ValueError:
        return False
    return isinstance(answer, dict) and isinstance(answer.get("status"), dict) and "error" in answer["status"]


def _has_tls_trouble(cause: BaseException | None) -> bool:
    """Whether a secure connection is at the bottom of it; a peer that hangs up in mid-handshake is not."""
    seen = 0
    while cause is not None and seen < 10:
        if isinstance(cause, ssl.SSLError):
            return not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        if "CERTIFICATE_VERIFY_FAILED" in str(cause) or ("SSL" in str(cause) and "alert" in str(cause).lower()):
            return True
        cause, seen = cause.__cause__ or cause.__context__, seen + 1
    return False
