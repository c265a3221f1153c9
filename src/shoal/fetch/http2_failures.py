"""What wreq's errors mean, in the words of `classify.TABLE`.

Their kinds are few, so the text has to tell the rest; none of it is passed on, as it holds the URL.
"""

from __future__ import annotations

import re

_TLS = re.compile(r"\bcode: (?:SSL|ZERO_RETURN|SYSCALL)\b")
_TLS_REASON = re.compile(r'\breason: "([A-Z0-9_]+)"')
_RESET = re.compile(r"(?:Reset|GoAway)\([^)]*?\b([A-Z][A-Z_]{3,}), (Remote|Library|User)\)")


def explain_wreq(exc: Exception, *, answered: bool) -> tuple[str, str] | None:
    """The kind and one line, in which {host} stands for the host; None if it is no error of wreq's."""
    if type(exc).__module__ != "exceptions":
        return (
            ("invalid_request", "the request cannot be sent: a header that is none")
            if _is_header(exc)
            else None
        )
    text = str(exc)
    match type(exc).__name__:
        case "BuilderError":
            return "invalid_url", "not a URL that can be fetched"
        case "TimeoutError":
            return "read_timeout", "nothing was received for the length of read_timeout"
        case "BodyError" if "TimedOut" in text:
            return "read_timeout", "nothing was received for the length of read_timeout"
        case "ProxyConnectionError":
            return "connect", "no connection to {host}"
        case "ConnectionError" | "TlsError":
            return _explain_connect(text)
    return _explain_loss(text, answered)


def _is_header(exc: Exception) -> bool:
    return type(exc) is RuntimeError and "header" in str(exc)


def _explain_connect(text: str) -> tuple[str, str]:
    if "TimedOut" in text:
        return "connect_timeout", "no connection within connect_timeout"
    if _TLS.search(text) is None:
        return "connect", "no connection to {host}"
    found = _TLS_REASON.search(text)
    reason = found[1].replace("_", " ").lower() if found else "the handshake was broken off"
    return "tls", f"no trustworthy TLS connection to {{host}}: {reason}"


def _explain_loss(text: str, answered: bool) -> tuple[str, str]:
    reset = _RESET.search(text)
    why = f": {reset[1].replace('_', ' ').lower()}" if reset else ""
    if answered:
        return "truncated", f"the body is incomplete or its framing is broken{why}"
    if (reset and reset[2] == "Library") or "Parse" in text:
        return "protocol", f"not a valid HTTP answer{why}"
    return "reset", f"the server closed the connection without a complete answer{why}"
