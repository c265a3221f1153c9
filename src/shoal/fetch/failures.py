"""What went wrong with an exchange, in the words of `classify.TABLE`: from the HTTP client's exceptions to a kind."""

from __future__ import annotations

import errno
import ssl

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError

from shoal.fetch.guard import ForbiddenAddressError

_MAX_DETAIL = 200
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL})  # no evidence against the host


class BodyTooLargeError(Exception):
    """The decoded body passed its cap."""


class UndecodableBodyError(Exception):
    """The body has an encoding that is not decoded."""


def explain(exc: Exception) -> tuple[str, str]:
    """The kind of a failure, and one line for a person. Order matters: the exceptions form a tree."""
    kind, detail = _explain(exc)
    return kind, " ".join(detail.split())[:_MAX_DETAIL]


def _explain(exc: Exception) -> tuple[str, str]:
    match exc:
        case BodyTooLargeError():
            return "too_large", str(exc)
        case UndecodableBodyError():
            return "encoding", str(exc)
        case aiohttp.ClientConnectorError():
            return _explain_connect(exc)
        case aiohttp.ConnectionTimeoutError():
            return "connect_timeout", "no connection within connect_timeout"
        case aiohttp.SocketTimeoutError():
            return "read_timeout", "nothing was received for the length of read_timeout"
        case TimeoutError():
            return "timeout", "not complete within total_timeout"
        case aiohttp.ClientPayloadError():
            return _explain_payload(exc)
        case aiohttp.ClientResponseError():
            return _explain_answer(exc)
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError() | UnicodeError():
            return "invalid_url", "not a URL that can be fetched"
        case aiohttp.ServerDisconnectedError():
            return "reset", "the server closed the connection without a complete answer"
        case ssl.SSLError():
            return "tls", _reason(exc)
        case aiohttp.ClientConnectionError() | OSError():
            return "reset", f"the connection was lost: {_reason(exc)}"
        case ValueError() | TypeError():
            return "invalid_request", f"the request cannot be sent: {exc}"
        case _:
            return "unexpected", f"{type(exc).__name__}: {exc}"


def _explain_connect(exc: aiohttp.ClientConnectorError) -> tuple[str, str]:
    cause = exc.os_error
    if isinstance(cause, ForbiddenAddressError):
        return "forbidden_address", cause.advice
    if cause.errno in _EXHAUSTED:
        return (
            "unexpected",
            f"this machine is out of sockets ({_reason(cause)}): lower concurrency or raise ulimit -n",
        )
    if isinstance(exc, aiohttp.ClientConnectorDNSError):
        return "dns", f"{exc.host} cannot be resolved: {_reason(cause)}"
    if isinstance(exc, aiohttp.ClientSSLError):
        return "tls", f"no trustworthy TLS connection to {exc.host}: {_reason(cause)}"
    return "connect", f"no connection to {exc.host}: {_reason(cause)}"


def _explain_payload(exc: aiohttp.ClientPayloadError) -> tuple[str, str]:
    cause = exc.__cause__
    if isinstance(cause, ContentEncodingError):
        return "encoding", f"the body could not be decompressed: {cause.message}"
    return "truncated", f"the body is incomplete or its framing is broken: {cause or exc}"


def _explain_answer(exc: aiohttp.ClientResponseError) -> tuple[str, str]:
    # When head and body arrive together, only the text tells that it was the body's framing.
    if "chunk" in exc.message.partition(":")[0].lower():
        return "truncated", f"the body's framing is broken: {exc.message}"
    return "protocol", f"not a valid HTTP answer: {exc.message}"


def _reason(exc: BaseException) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return exc.verify_message
    if isinstance(exc, ssl.SSLError):
        return (exc.reason or str(exc)).replace("_", " ").lower()
    return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
