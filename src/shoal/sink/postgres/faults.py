"""Errors of the driver: which are temporary, and messages for the others."""

from __future__ import annotations

import ssl

import asyncpg  # type: ignore[import-untyped]

from shoal import text
from shoal.errors import ShoalError, SinkError, UsageError
from shoal.sink.postgres.address import Address

NO_SUCH_DATABASE = "3D000"
NO_ROOM = "53100"
FORBIDDEN = "42501"
STARTING = frozenset({"57P03", "53300"})  # starting up or shutting down; too many connections

_PASSING = STARTING | {
    "25006",  # read-only: a primary became a standby
    "40001",  # could not serialize
    "40P01",  # deadlock
    "53200",  # out of memory
    "55P03",  # lock not available
    "57014",  # cancelled: statement_timeout
    "57P01",  # an administrator's shutdown
    "57P02",  # a crash of another session
    "57P04",  # the database was dropped: the next connection fails with the reason
    "57P05",  # idle_session_timeout
}


def sqlstate(error: BaseException) -> str:
    return str(error.sqlstate) if isinstance(error, asyncpg.PostgresError) else ""


def passes(error: BaseException) -> bool:
    """Whether the error is temporary: the server is away, or the transaction collided with another."""
    if code := sqlstate(error):
        return code in _PASSING or code.startswith("08")
    if isinstance(error, ssl.SSLCertVerificationError):
        return False
    if isinstance(error, ValueError):
        return False  # an option or a value that the driver cannot use
    # After a connection is cut between two statements, the driver raises its own errors until there is a new one.
    return isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError | OSError)


def one_line(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, asyncpg.InternalClientError):
        return "the connection was lost"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return text.one_line(str(error)) or type(error).__name__


def no_connection(error: BaseException, address: Address) -> ShoalError:
    """Why a connection could not be made, and what to do."""
    where, why = address.shown, one_line(error)
    code = sqlstate(error)
    if code.startswith("28"):
        return SinkError(f"{where} refuses the login: {why}; check the URL, PGUSER and PGPASSWORD")
    if code == NO_SUCH_DATABASE:
        return SinkError(f"cannot write to {where}: {why}; create it with createdb, or name another")
    if code:
        return SinkError(f"cannot write to {where}: {why}")
    if isinstance(error, ValueError):  # also a password that the driver cannot read: it repeats it
        return UsageError(f"cannot use the address of {where}: its port, options or PG… variables are wrong")
    if isinstance(error, ssl.SSLError | asyncpg.InterfaceError):
        return SinkError(f"cannot write to {where}: {why}; check sslmode in the URL or PGSSLMODE")
    return SinkError(f"cannot reach {where}: {why}; is PostgreSQL running there? check host and port")


def cannot_write(error: BaseException, table: str, where: str) -> SinkError:
    """The error for rows that could not be written, neither because of a value nor because of the connection."""
    why = one_line(error)
    if sqlstate(error) == NO_ROOM:
        return SinkError(f"{where} has no room left: {why}; nothing is lost, make room and run again")
    if sqlstate(error) == FORBIDDEN:
        return SinkError(
            f"{where}: may not create or write table {table}: {why}; GRANT the right, or create the table yourself"
        )
    return SinkError(
        f"{where}: cannot write table {table}: {why}; nothing is lost, put it right and run again"
    )
