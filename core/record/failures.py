"""PostgreSQL's errors in the engine's words: SQLSTATE decides (PostgreSQL manual, appendix A)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg_pool import PoolTimeout

from core.errors import Busy, EngineError, Misconfigured, Permanent, Refused, Unavailable

_BUSY = {"40001", "40P01", "55P03"}
_UNAVAILABLE = {"25006"}  # read only: the server that was the primary is a replica now
_MISCONFIGURED = {"3D000", "42501", "42P01", "42883", "42703", "0A000"}
_MISCONFIGURED_CLASSES = {"28", "42"}
_UNAVAILABLE_CLASSES = {"08", "53", "57", "58", "XX"}
_VALUE_CLASSES = {"22", "23"}


@contextmanager
def translated() -> Iterator[None]:
    """Turn what psycopg raises inside the block into errors of `core.errors`."""
    try:
        yield
    except PoolTimeout as error:
        raise Unavailable("no connection to PostgreSQL came free in time") from error
    except psycopg.ProgrammingError as error:
        if error.sqlstate is None:
            # psycopg cannot make a connection of the URL, and its words may quote the password.
            raise Misconfigured("the URL of PostgreSQL cannot be used") from None
        raise translate(error) from error
    except psycopg.Error as error:
        if error.sqlstate is not None and error.sqlstate[:2] in _VALUE_CLASSES:
            # The original quotes the offending values, which are content: it is not kept.
            raise translate(error) from None
        raise translate(error) from error


def translate(error: psycopg.Error) -> EngineError:
    """The engine's error for one of psycopg's; values never enter its message."""
    state = error.sqlstate
    if state is None:
        if isinstance(error, psycopg.OperationalError):
            # libpq's words name host, port, user and database, and no password; before a connection stands it
            # tells no code, so a wrong password and a server that is down differ in its words alone.
            return Unavailable(f"PostgreSQL cannot be reached, or the connection broke: {_first_line(error)}")
        return Permanent(f"PostgreSQL client error {type(error).__name__}")
    message = f"PostgreSQL refused ({state} {type(error).__name__})"
    if state in _BUSY:
        return Busy(f"PostgreSQL is busy with the same rows ({state})")
    if state == "57014":
        return Unavailable("PostgreSQL did not answer within the statement timeout")
    if state == "22023":  # its words may quote the value
        return Misconfigured(f"{message}: a setting or role it does not know")
    if state in _MISCONFIGURED or state[:2] in _MISCONFIGURED_CLASSES:
        return Misconfigured(f"{message}: {error.diag.message_primary}")
    if state in _UNAVAILABLE or state[:2] in _UNAVAILABLE_CLASSES:
        return Unavailable(message)
    if state[:2] in _VALUE_CLASSES:
        return Refused(f"{message}: {error.diag.constraint_name or 'a value does not fit its column'}")
    return Permanent(message)


def _first_line(error: psycopg.Error) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
