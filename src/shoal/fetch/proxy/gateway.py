"""Gateways: services that fetch a page when they are asked for it by HTTP, with a key.

    https://api.example/v1/?key=${KEY}&url={url}&country={country}&render={render}

A gateway stands in a pool like a proxy. What it is asked for is the page: host, politeness, scope and robots.txt are
those of the page, and its address and key are known here only. Its own errors are told from the page's:

    the answer of the gateway               it is
    ─────────────────────────────────────   ───────────────────────────────────────────────
    no connection                           gateway_down
    401, 402, 429 (or as `errors` says)     gateway_auth, gateway_quota, gateway_limit
    any other 5xx; with a `status_header`   gateway_error
    that is missing, any other 4xx
    anything else                           the page's
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self
from urllib.parse import quote

from msgspec.structs import replace
from multidict import CIMultiDict
from yarl import URL

from shoal.admit.identity import origin
from shoal.admit.sending import sent_url
from shoal.fetch.cookie_jar import NoCookies
from shoal.fetch.proxy.proxy import Proxy
from shoal.fetch.transport import BodySink, FetchRequest
from shoal.model import Failure, Outcome, Response
from shoal.model.proxy_address import variables_in, with_variables
from shoal.settings import PoolSettings
from shoal.text import MASK

_MEANINGS = {
    "auth": "it does not accept our key: check it in proxies",
    "quota": "the credits of our account are used up",
    "limit": "it takes no more requests from us at the moment",
    "error": "it could not fetch the page",
}
_ERRORS = {"401": "auth", "402": "quota", "403": "auth", "407": "auth", "429": "limit"}
_AMBIGUOUS = frozenset({"403", "407"})  # these may be the page's, if there is no status_header
_OURS = frozenset({"referer", "range", "if-range"})  # headers that we add: the page comes without them, too
_OF_THE_EXCHANGE = frozenset(
    {"content-type", "accept-encoding"}
)  # they say how we talk with the gateway, too
_LEAST = 6  # characters of a secret: a shorter one would mask half of the text


class Gateway(Proxy):
    """A gateway, in the place of a proxy."""

    __slots__ = ("_fields", "_headers", "_own", "_secrets", "_template")

    def __init__(self, pool: str, own: PoolSettings, environ: Mapping[str, str]) -> None:
        """Raises ValueError, without the address, or KeyError with the name of a missing variable."""
        self._own = own
        # A key may have any characters. A variable that is the whole address is one already.
        whole = own.gateway.startswith("${") and own.gateway.endswith("}")
        self._template = with_variables(own.gateway, environ, quoted=not whole)
        self._headers = {name: with_variables(value, environ) for name, value in own.headers.items()}
        self._fields = {"country": own.country, "session": ""}
        host, port = _place(self._template)
        super().__init__(pool, "gateway", host, port, None, None)
        given = [own.gateway, *own.headers.values()]
        self._secrets = [environ[name] for text in given for name in variables_in(text)]
        self._secrets += [*self._headers.values(), *URL(self._template).query.values()]
        self._secrets = [text for text in self._secrets if len(text) >= _LEAST and "{" not in text]
        if not own.country and self.takes("country"):
            raise ValueError('it has {country}: add country = "…", for requests that ask for none')

    def takes(self, field: str) -> bool:
        return any(f"{{{field}}}" in text for text in (self._template, *self._headers.values()))

    def filled_in(self, country: str, session: str) -> Self:
        made = super().filled_in(country, session)
        made._fields = {"country": country, "session": session}
        return made

    # -- asking

    def request_for(self, request: FetchRequest, total_timeout: float) -> FetchRequest | Failure:
        """The request to the gateway."""
        prefix = self._own.header_prefix
        own = [name for name in request.headers or () if prefix is not None or name.lower() not in _OURS]
        if prefix is None and [name for name in own if name.lower() not in _OF_THE_EXCHANGE]:
            return Failure(
                "invalid_request",
                f"gateway {self.name} is not known to pass headers on ({', '.join(own)}): "
                'set its header_prefix ("" if it takes them as they are)',
            )
        if request.rendering is not None and not self.takes("render"):
            return Failure(
                "invalid_request",
                f"gateway {self.name} does not render pages of the browser lane: put {{render}} into its address",
            )
        total = request.total_timeout or total_timeout
        return FetchRequest(
            self._filled(self._template, request, quoted=True),
            request.method,
            self._headers_for(request, own),
            request.body,
            total_timeout=total,
            read_timeout=total,  # it is silent until it has the page
            max_body=request.max_body,
            truncate=request.truncate,
            sink=None if request.sink is None else _PageSink(request.sink, self._page_status),
            proxy=self,
            jar=NoCookies(),  # cookies are for the page's host
        )

    def _headers_for(self, request: FetchRequest, own: list[str]) -> dict[str, str]:
        headers = {name: self._filled(text, request, quoted=False) for name, text in self._headers.items()}
        for name in own:
            assert request.headers is not None
            if name.lower() in _OF_THE_EXCHANGE:
                headers[name] = request.headers[name]
            else:
                headers[f"{self._own.header_prefix}{name}"] = request.headers[name]
        return headers

    def _filled(self, text: str, request: FetchRequest, *, quoted: bool) -> str:
        fields = {
            **self._fields,
            "url": request.url,
            "render": "true" if request.rendering is not None else "false",
        }
        for name, value in fields.items():
            text = text.replace(f"{{{name}}}", quote(value, safe="") if quoted else value)
        return text

    # -- what it answers

    def outcome(self, request: FetchRequest, answer: Outcome) -> Outcome:
        """What the answer of the gateway says about the page."""
        if isinstance(answer, Failure):
            return self._failed(answer)
        if (error := self._error(answer)) is not None:
            return Failure(
                f"gateway_{error}",
                f"gateway {self.name}: HTTP {answer.status}: {_MEANINGS[error]}",
                status=answer.status,
                elapsed=answer.elapsed,
            )
        status = self._page_status(answer.status, answer.headers)
        headers = CIMultiDict((name, self._masked(value)) for name, value in answer.headers.items())
        url = sent_url(headers.get(self._own.url_header, "")) if self._own.url_header else None
        body = answer.body if status < 400 else self._masked_bytes(answer.body)
        return replace(answer, url=url or request.url, status=status, headers=headers, body=body)

    def _failed(self, failure: Failure) -> Failure:
        if failure.kind in ("too_large", "forbidden_address", "invalid_request"):
            return replace(failure, detail=self._masked(failure.detail))
        down = failure.kind in ("connect", "connect_timeout", "dns", "dns_wait", "tls")
        kind = "gateway_down" if down else "gateway_error"
        return replace(failure, kind=kind, detail=self._masked(f"gateway {self.name}: {failure.detail}"))

    def _page_status(self, status: int, headers: Mapping[str, str]) -> int:
        given = headers.get(self._own.status_header, "") if self._own.status_header else ""
        return int(given) if given.isascii() and given.isdigit() and len(given) == 3 else status

    def _error(self, answer: Response) -> str | None:
        """The gateway's own error; None: the answer is the page's."""
        own, status = self._own, str(answer.status)
        if answer.headers.get("Location", "").startswith(origin(self._template)):
            return "error"  # a redirect of its own has our key in it
        if own.status_header and own.status_header in answer.headers:
            return None
        if status in own.errors:
            return None if own.errors[status] == "site" else own.errors[status]
        if status in _ERRORS and (own.status_header or status not in _AMBIGUOUS):
            return _ERRORS[status]
        return "error" if answer.status >= (400 if own.status_header else 500) else None

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK).replace(quote(secret, safe=""), MASK)
        return text

    def _masked_bytes(self, body: bytes) -> bytes:
        for secret in self._secrets:
            body = body.replace(secret.encode(), MASK.encode())
        return body


class _PageSink:
    """A sink that sees the status of the page: an error page is no file."""

    def __init__(self, sink: BodySink, status: Callable[[int, Mapping[str, str]], int]) -> None:
        self._sink = sink
        self._status = status

    @property
    def cap(self) -> int:
        return self._sink.cap

    @property
    def error(self) -> OSError | None:
        return self._sink.error

    def headers(self) -> dict[str, str]:
        return self._sink.headers()

    def takes(self, status: int, headers: Mapping[str, str]) -> bool:
        return self._sink.takes(self._status(status, headers), headers)

    def write(self, data: bytes) -> None:
        self._sink.write(data)

    def beginning(self, size: int) -> bytes:
        return self._sink.beginning(size)

    def starts_anew(self) -> bool:
        return self._sink.starts_anew()

    def missing(self) -> str:
        return self._sink.missing()


def _place(template: str) -> tuple[str, int]:
    if "{url}" not in template:
        raise ValueError("its address has no {url}, which stands for the page")
    try:
        url = URL(template)
        host, port = url.host, url.port
    except (ValueError, IndexError):
        raise ValueError("its address cannot be read") from None
    if url.scheme not in ("http", "https") or not host or not port:
        raise ValueError("write its address as https://api.example/?key=${KEY}&url={url}")
    if url.user or url.password:
        raise ValueError("give its key in the query or in headers, not as a user")
    return host, port
