"""The one error tree. The type alone decides what a caller does next.

    EngineError
    ├── Transient            try again later; nothing is wrong with the request
    │   ├── Unavailable      a store or provider cannot be reached, or went away in mid-call
    │   ├── Busy             somebody else holds what is needed (an index folder, a lock)
    │   └── Overloaded       asked to slow down; carries how long to wait
    ├── Permanent            trying the same again gives the same
    │   ├── Refused          the input breaks a rule; names the place in it
    │   ├── NotFound         no such memory, collection or object
    │   ├── Conflict         the record is at another version than the caller believed
    │   ├── BadAnswer        a provider or store answered something that cannot be used
    │   └── LeaseLost        another worker has taken over; stop before the next side effect
    └── Misconfigured        a person has to change settings, rights or keys; stop, set nothing aside

Client libraries' errors are translated where the library is called, so that nothing above the
adapters and the record knows any other exception.
"""

from __future__ import annotations

from typing import Any


class EngineError(Exception):
    """Base of every error the engine raises. `message` is for people and holds no content of memories."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors cross process borders with their details (Prefect stores them, workers send them)."""
        return _rebuild, (type(self), self.message, self.details)

    def __str__(self) -> str:
        return self.message


def _rebuild(kind: type[EngineError], message: str, details: dict[str, Any]) -> EngineError:
    return kind(message, **details)


class Transient(EngineError):
    """Worth trying again: the same call may succeed later."""


class Unavailable(Transient):
    """A store or provider cannot be reached or the connection broke. What was asked may have happened."""


class Busy(Transient):
    """Held by somebody else for now; the message names the holder where it is known."""


class Overloaded(Transient):
    """The other side asks for less. `retry_after` is in seconds (None: it did not say)."""

    @property
    def retry_after(self) -> float | None:
        """Seconds the other side asked us to wait, if it said so."""
        hint = self.details.get("retry_after")
        return None if hint is None else float(hint)


class Permanent(EngineError):
    """The same call will fail the same way."""


class Refused(Permanent):
    """The input breaks a rule. `where` names the offending place, as a path such as `metadata.a[2]`."""

    @property
    def where(self) -> str:
        """Path of the offending value inside the input; empty when the input as a whole is meant."""
        return str(self.details.get("where", ""))


class NotFound(Permanent):
    """There is no such thing, or none the caller may see."""


class Conflict(Permanent):
    """Another version is current. `current` is that version."""

    @property
    def current(self) -> int | None:
        """The version the record has now, if known."""
        return self.details.get("current")


class BadAnswer(Permanent):
    """A provider or store answered, but not with what the protocol promises (count, order, width, values)."""


class LeaseLost(Permanent):
    """The lease ran out and somebody else may hold the work: do nothing more with it."""


class Misconfigured(EngineError):
    """Settings, rights or keys are wrong; no retry helps and no item is to blame."""
