"""What fetching raises, and which kind of failure (`policy/outcomes.py`) each exception is."""

from __future__ import annotations

import errno
import ssl
from typing import Literal

from shoal.fetch.body_reader import BodyTooLargeError, CutBodyError, TooSlowError, UndecodableBodyError
from shoal.fetch.dns_lookup import UnresolvedError
from shoal.fetch.guard import ForbiddenAddressError
from shoal.fetch.proxy.socks import SocksAuthError, SocksReplyError
from shoal.limits import FETCH_DETAIL

_GATEWAY = frozenset({500, 502, 503, 504})  # what proxies answer when they cannot reach the host
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL})  # no evidence against the host


# How far a connection through a proxy is: to the proxy, from there to the host, made.
Stage = Literal["dialling", "tunnelling", "connected"]


class InvalidUrlError(ValueError):
    """Not a URL that can be fetched."""


class ConnectError(OSError):
    """No connection to a host."""

    def __init__(self, host: str, cause: OSError) -> None:
        super().__init__(cause.errno, cause.strerror)
        self.host = host
        self.cause = cause


class ResolveError(ConnectError):
    """The host has no address."""


class TlsError(ConnectError):
    """The TLS handshake failed, or the certificate is not valid for the host."""


class ConnectTimeoutError(TimeoutError):
    """No connection within connect_timeout."""


class ReadTimeoutError(TimeoutError):
    """Nothing was received for the length of read_timeout."""


class ProxyAnswerError(Exception):
    """The proxy answered something else than that the tunnel is open."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class ProxyAuthError(Exception):
    """The proxy answered 407."""


class BrokenAnswerError(Exception):
    """The answer does not keep to the protocol."""


class BrokenBodyError(Exception):
    """The body of an answer ends early, or its chunks are broken."""


class FloodError(Exception):
    """The server sends endless data that is not part of an answer."""


class LostError(Exception):
    """The server ended the connection or the exchange. The text is its reason, if it gave one."""


class NotTakenError(LostError):
    """The server ended the exchange and has not processed the request."""


def explain(exc: Exception) -> tuple[str, str]:
    """The kind of a failure, and one line for a person. Order matters: the exceptions form a tree."""
    kind, detail = _explain(exc)
    return kind, " ".join(detail.split())[:FETCH_DETAIL]


def _explain(exc: Exception) -> tuple[str, str]:
    match exc:
        case ForbiddenAddressError():
            return "forbidden_address", exc.advice
        case BodyTooLargeError():
            return "too_large", str(exc)
        case UndecodableBodyError():
            return "encoding", str(exc)
        case CutBodyError():
            return "truncated", f"the body was cut off: {exc}"
        case FloodError():
            return "flood", f"the server sends without end what is no answer: {exc}"
        case BrokenAnswerError():
            return "protocol", f"not a valid HTTP answer: {exc}"
        case LostError():
            return "reset", _and("the server closed the connection without a complete answer", exc)
        case TooSlowError():
            return "too_slow", str(exc)
        case ConnectError():
            return _explain_connect(exc)
        case ConnectTimeoutError():
            return "connect_timeout", "no connection within connect_timeout"
        case ReadTimeoutError():
            return "read_timeout", "nothing was received for the length of read_timeout"
        case TimeoutError():
            return "timeout", "not complete within total_timeout"
        case BrokenBodyError():
            return "truncated", f"the body is incomplete or its framing is broken: {exc}"
        case InvalidUrlError() | UnicodeError():
            return "invalid_url", "not a URL that can be fetched"
        case ssl.SSLError():
            return "tls", _reason(exc)
        case OSError():
            return "reset", f"the connection was lost: {_reason(exc)}"
        case ValueError() | TypeError():
            return "invalid_request", f"the request cannot be sent: {exc}"
        case _:
            return "unexpected", f"{type(exc).__name__}: {exc}"


def explain_proxy(exc: Exception, proxy: str, stage: Stage) -> tuple[str, str]:
    """`explain` for an exchange through a proxy: depending on the stage, the proxy itself is at fault."""
    kind, detail = _explain_proxy(exc, proxy, stage)
    return kind, " ".join(detail.split())[:FETCH_DETAIL]


def _explain_proxy(exc: Exception, proxy: str, stage: Stage) -> tuple[str, str]:
    status = exc.status if isinstance(exc, ProxyAnswerError) else None
    cause = exc.cause if isinstance(exc, ConnectError) else exc
    if status == 407 or isinstance(cause, ProxyAuthError | SocksAuthError):
        return "proxy_auth", f"proxy {proxy} does not accept its user or password: check them in proxies"
    if stage == "connected" or isinstance(exc, ForbiddenAddressError) or _is_exhausted(cause):
        return explain(exc)
    if stage == "dialling":
        if isinstance(exc, TimeoutError):
            return "proxy_timeout", f"no connection to proxy {proxy} in time"
        return "proxy_connect", f"no connection to proxy {proxy}: {_reason(cause)}"
    if isinstance(exc, TlsError | ssl.SSLError):
        return explain(exc)  # the host's certificate, seen through the tunnel
    if status is not None and status not in _GATEWAY:
        return "proxy_refused", f"proxy {proxy} refuses to connect to this host: HTTP {status}"
    if isinstance(cause, SocksReplyError) and cause.by_rule:
        return "proxy_refused", f"proxy {proxy} refuses to connect to this host: {cause}"
    why = "not in time" if isinstance(exc, TimeoutError) else f"HTTP {status}" if status else _reason(cause)
    return "proxy_gateway", f"proxy {proxy} could not reach the host: {why}"


def _is_exhausted(cause: BaseException) -> bool:
    return isinstance(cause, OSError) and cause.errno in _EXHAUSTED


def _explain_connect(exc: ConnectError) -> tuple[str, str]:
    cause = exc.cause
    if isinstance(cause, ForbiddenAddressError):
        return "forbidden_address", cause.advice
    if cause.errno in _EXHAUSTED:
        return (
            "unexpected",
            f"this machine is out of sockets ({_reason(cause)}): lower concurrency or raise ulimit -n",
        )
    if isinstance(cause, UnresolvedError) and cause.why == "busy":
        return "dns_wait", f"{exc.host} is not looked up now: {_reason(cause)}"
    if isinstance(exc, ResolveError):
        return "dns", f"{exc.host} cannot be resolved: {_reason(cause)}"
    if isinstance(exc, TlsError):
        return "tls", explain_tls(exc.host, cause)
    return "connect", f"no connection to {exc.host}: {_reason(cause)}"


def explain_tls(host: str, exc: BaseException) -> str:
    return f"no trustworthy TLS connection to {host}: {_reason(exc)}"


def _and(sentence: str, exc: Exception) -> str:
    return f"{sentence}: {exc}" if str(exc) else sentence


def _reason(exc: BaseException) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return exc.verify_message
    if isinstance(exc, ssl.SSLError):
        return (exc.reason or str(exc)).replace("_", " ").lower()
    return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
