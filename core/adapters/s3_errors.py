"""What an S3 client's error means: by the answer's code and status where there is one, else by what broke.

Messages are our own, made of the code and the status. The libraries' texts are left out: they hold
whole requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from core.errors import EngineError, Misconfigured, NotFound, Overloaded, Permanent, Refused, Unavailable

# obstore tells code and status in its text only
STATUS_IN_TEXT = re.compile(r"status code: (\d{3})")
CODE_IN_TEXT = re.compile(r"<Code>([\w.]{1,80})</Code>")

SLOW_DOWN = {"SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException", "RequestLimitExceeded"}
TOO_LARGE = {"KeyTooLongError", "EntityTooLarge", "InvalidURI"}
MANGLED = {"BadDigest", "IncompleteBody", "RequestTimeout", "XAmzContentSHA256Mismatch", "OperationAborted"}
UNSUPPORTED = {"NotImplemented"}
NO_CREDENTIALS = {
    "CredentialRetrievalError",
    "NoAuthTokenError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "UnauthenticatedError",
    "PermissionDeniedError",
}
METADATA_SERVICE = "169.254.169.254"  # where obstore looks for credentials in the end


class PreconditionFailed(Permanent):
    """Something is there under the key that was to be new."""


class Unsupported(Misconfigured):
    """The server does not know what was asked of it, such as a conditional write."""


def translation(error: BaseException, *, exists: bool = False) -> EngineError:
    """The engine's error for one of a client library; `exists`: the library says there is an object already."""
    code, status = _answer(error)
    if status is None and code is None:
        return PreconditionFailed("it is there already") if exists else _of_connection(error)
    said = f"the object store answers {' '.join(str(word) for word in (status, code) if word is not None)}"
    if code == "NoSuchBucket":
        return Misconfigured(f"{said}: there is no such bucket")
    if status == 412 or code == "PreconditionFailed":
        return PreconditionFailed(said)
    if code in SLOW_DOWN or status in {429, 503}:
        return Overloaded(said, retry_after=_retry_after(error))
    if status == 501 or code in UNSUPPORTED:
        return Unsupported(said)
    if code in TOO_LARGE:
        return Refused(said, where="key")
    if status == 404 or code in {"NoSuchKey", "404"}:
        return NotFound("no such object")
    if code in MANGLED or status in {408, 409} or (status or 0) >= 500:
        return Unavailable(said)
    return Misconfigured(said)  # rights, keys, clock, region, encryption key: all are a person's to mend


def _of_connection(error: BaseException) -> EngineError:
    kind, text = type(error).__name__, str(error)
    if isinstance(error, FileNotFoundError):
        return NotFound("no such object")
    if isinstance(error, PermissionError) or kind in NO_CREDENTIALS or METADATA_SERVICE in text:
        return Misconfigured("there are no credentials for the object store, or they are incomplete")
    if "certificate" in text.lower():
        return Misconfigured("the object store shows a certificate that is not trusted: is the CA file right?")
    if "redirect without LOCATION" in text:
        return Misconfigured("the object store sends us elsewhere: is the region right?")
    if isinstance(error, ValueError):
        return Misconfigured(f"the object store cannot be asked like this ({kind})")
    return Unavailable(f"the object store cannot be reached, or broke off ({kind})")


def _answer(error: BaseException) -> tuple[str | None, int | None]:
    """Code and status of the server's answer, if the error tells of one."""
    for part in _chain(error):
        response: Any = getattr(part, "response", None)
        if isinstance(response, dict):
            code = response.get("Error", {}).get("Code")
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            return code, status
    code_found, status_found = CODE_IN_TEXT.search(str(error)), STATUS_IN_TEXT.search(str(error))
    return code_found and code_found[1], int(status_found[1]) if status_found else None


def _retry_after(error: BaseException) -> float | None:
    for part in _chain(error):
        response: Any = getattr(part, "response", None)
        if isinstance(response, dict):
            headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            asked = str(headers.get("retry-after", ""))
            return float(asked) if asked.isdecimal() else None
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what caused it."""
    part: BaseException | None = error
    while part is not None:
        yield part
        part = part.__cause__
