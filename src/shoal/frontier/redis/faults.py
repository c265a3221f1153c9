"""What an error of the server means: wait and repeat the call, make room, or raise it in plain words."""

from __future__ import annotations

import errno
import os
import random
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Literal

from redis import exceptions as said
from redis.asyncio.sentinel import MasterNotFoundError

from shoal.errors import ShoalError, StoreError, StoreFull, StoreVersionError, UsageError
from shoal.events import event
from shoal.frontier.redis.address import Address
from shoal.frontier.redis.keys import LAYOUT
from shoal.text import command

Meaning = Literal[
    "passing",  # restart, failover, lost connection: the same call will go through later
    "full",  # no memory or no disk: the call succeeds once there is room
    "fatal",  # repeating does not help
]


class Taken(StoreError):
    """Another process has taken over this upgrade, because this one was silent for too long."""


# How redis-py begins its own sentence, which repeats the address: "Error 111 connecting to 127.0.0.1:6379. …"
_REFUSED = re.compile(r"^Error (\d{1,3}) connecting to ")

# What a call may raise. Some of the cluster client's errors are no RedisError.
FAULTS = (said.RedisError, said.RedisClusterException, OSError)

_PASSING = {"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "READONLY", "TRYAGAIN", "NOREPLICAS", "UNBLOCKED"}
_FULL = {"OOM", "MISCONF"}
# Redis before 7 wraps what a command inside a script says: "ERR Error running script (…): … -OOM command not allowed"
_WRAPPED = re.compile(r"-([A-Z]{3,})\b")


@contextmanager
def closed_connections() -> Iterator[None]:
    """Turns uvloop's own error for a connection that closes during a write, which redis-py does not translate, into an
    ordinary lost connection."""
    try:
        yield
    except RuntimeError as error:
        if "handler is closed" not in str(error):
            raise
        raise said.ConnectionError("Connection closed by server.") from error


def meaning(error: BaseException) -> Meaning:
    error = _inner(error)
    match error:
        case said.AuthenticationError() | said.AuthorizationError() | said.NoPermissionError():
            return "fatal"
        case said.OutOfMemoryError():
            return "full"
        case said.ReadOnlyError() | said.ClusterDownError() | said.TryAgainError() | said.MasterDownError():
            return "passing"
        case said.ResponseError():
            words = _codes(error)
            return "full" if words & _FULL else "passing" if words & _PASSING else "fatal"
        case said.ConnectionError() | said.TimeoutError() | said.InvalidResponse():
            return "fatal" if _certificate_fault(error) else "passing"
        case said.RedisClusterException():
            return "fatal" if "not enabled" in str(error) else "passing"
        case said.ClusterError() | OSError():  # OSError: TimeoutError too
            return "passing"
    return "fatal"


def _inner(error: BaseException) -> BaseException:
    """The cluster client tries its nodes in turn, and wraps the error of the last one."""
    while isinstance(error, said.RedisClusterException) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _codes(error: said.ResponseError) -> set[str]:
    text = str(error)
    return {text.partition(" ")[0], *_WRAPPED.findall(text)}


def _certificate_fault(error: BaseException) -> bool:
    """TLS that will fail again; not a handshake that was cut short by a dying server."""
    cause = root(error)
    return isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def misunderstood(error: BaseException) -> bool:
    """Something answers, but not with Redis protocol: perhaps only one side speaks TLS."""
    error = _inner(error)
    if isinstance(error, said.AuthenticationError | said.ResponseError | said.BusyLoadingError):
        return False
    cause = root(error)
    return not (isinstance(cause, OSError) and cause.errno in (errno.ECONNREFUSED, errno.ENOENT))


def never_helps(error: BaseException) -> bool:
    """Whether it is useless to wait at the start: there is no such name, or another kind of server answers. In a
    running crawl it is not: a name may be missing for a while."""
    cause = root(error)
    unknown = isinstance(cause, socket.gaierror) and cause.errno not in (socket.EAI_AGAIN, socket.EAI_SYSTEM)
    return unknown or isinstance(_inner(error), said.InvalidResponse)


def root(error: BaseException) -> BaseException:
    """The exception that redis-py's exception was made from."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


def translate(error: BaseException, address: Address, doing: str = "") -> ShoalError:
    """The error for a person, in one line."""
    error = _inner(error)
    if isinstance(error, ShoalError):
        return error
    return _refused(error, address, doing) or _full(error, address) or _unusable(error, address, doing)


def _refused(error: BaseException, address: Address, doing: str) -> ShoalError | None:
    """The server does not take the user, the address or this version of Shoal."""
    text, at = str(error), f"the store at {address}"
    user = address.username or "default"
    match error:
        case said.AuthenticationError() if "NOAUTH" in text or "required" in text.lower():
            return UsageError(f"{at} wants a password: set SHOAL_REDIS_PASSWORD, or put it into the address")
        case said.AuthenticationError() if "without any password" in text:
            return UsageError(
                f"{at} has no password, but one was given: unset SHOAL_REDIS_PASSWORD, or take it out"
            )
        case said.AuthenticationError() | said.AuthorizationError():
            return UsageError(f"{at} refused user {user!r}: wrong name or password")
        case said.NoPermissionError():
            return UsageError(f"{at}: user {user!r} may not do this ({doing}): {_line(text)}")
        case said.ResponseError() if text.startswith("LAYOUT "):
            return StoreVersionError(_other_layout(at, text.split()[1]))
        case said.ResponseError() if text.startswith("TAKEN "):
            return Taken(f"{at} is being upgraded by another process")
        case said.ResponseError() if "DB index is out of range" in text:
            return UsageError(f"{at} has no database number {address.db}: use a smaller one, such as 0")
        case MasterNotFoundError():
            return StoreError(f"no sentinel of {at} knows a primary that is up: check the service's name")
        case said.RedisClusterException() if "not enabled" in text:
            return UsageError(f"{at} is not a cluster: use {address.scheme.replace('+cluster', '')}://")
    return None


def _full(error: BaseException, address: Address) -> ShoalError | None:
    text = str(error)
    if meaning(error) != "full":
        return None
    if "MISCONF" in text:
        return StoreFull(
            f"the store at {address} cannot write to its disk, and takes no changes ({_line(text)}): free some space"
            " there, or see its log; nothing that was committed is lost"
        )
    return StoreFull(
        f"no room left in the store at {address} ({_line(text)}): raise maxmemory, or make room with"
        f" {command('store --prune')}; nothing that was committed is lost"
    )


def _unusable(error: BaseException, address: Address, doing: str) -> ShoalError:
    """There is no connection, or anything else went wrong."""
    at, cause = f"the store at {address}", root(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return UsageError(
            f"the certificate of {at} does not hold ({cause.verify_message}): name who signed it with ?ca=ca.pem"
        )
    if isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED:
        return StoreError(f"nothing listens at {address}: start the server, or correct the address (--store)")
    if isinstance(cause, socket.gaierror):
        return UsageError(
            f"no machine has the name in {address} ({reason(error)}): correct the address (--store)"
        )
    if isinstance(error, said.InvalidResponse):
        return UsageError(f"what answers at {address} is no Valkey or Redis: correct the address (--store)")
    if isinstance(error, said.ResponseError) and doing:
        return StoreError(f"{doing} failed in {at}: {_line(str(error))}")
    return StoreError(f"cannot use {at}: {reason(error)}")


def _other_layout(at: str, layout: str) -> str:
    if layout == "upgrading":
        return f"{at} is being upgraded to another version of Shoal: start that version when it is done"
    return f"{at} was upgraded to layout {layout} while this was running, which knows {LAYOUT}: start that version"


def reason(error: BaseException) -> str:
    """A few words for the log."""
    cause = root(error)
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed ({cause.reason or 'handshake'})"
    if isinstance(error, TimeoutError | said.TimeoutError):
        return "no answer in time"
    if (number := _REFUSED.search(str(error))) is not None:
        return os.strerror(int(number[1])).lower()
    if isinstance(cause, OSError) and (cause.errno or 0) > 0:
        return os.strerror(cause.errno or 0).lower()  # asyncio's own words repeat the address
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    return _line(str(error)) or type(error).__name__


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


# -- waiting for a store that is away

FIRST_DELAY, LONGEST_DELAY = 0.05, 2.0


def delay(attempt: int) -> float:
    """Seconds before the nth repetition; random, so that workers do not all come back at once."""
    return random.uniform(0, min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(attempt - 1, 16)))


class Outage:
    """The calls that wait for the store. The log has one line when an outage begins and one when it is over, however
    many calls wait."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._told = False
        self._full = False
        self._since = 0.0
        self.waiting = 0

    def begin(self, error: BaseException) -> None:
        self.waiting += 1
        if self._told:
            return
        self._told, self._since = True, monotonic()
        store, why = str(self._address), reason(error)
        self._full = meaning(error) == "full"
        full = f"the store at {store} is full ({why}), waiting" if self._full else ""
        event("store_lost", full, store=store, reason=why)

    def end(self, answered: bool) -> None:
        """A call that waited has ended. If all of them were cut short, as a viewer's are, a store that was away still
        is; a full one may not be."""
        self.waiting -= 1
        if answered:
            self._over()
        elif self._full and not self.waiting:
            self._told = False

    def answered(self) -> None:
        """A call that did not wait was answered."""
        if not self.waiting:
            self._over()

    def _over(self) -> None:
        if self._told:
            self._told = False
            event("store_back", store=str(self._address), seconds=monotonic() - self._since)
