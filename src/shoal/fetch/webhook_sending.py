"""Webhooks: whom the settings name, how a delivery is signed, and the one request that it is.

An address may have a token in its path, so it is a secret like the key: neither is stored or shown. A task holds the
number of its webhook, and the address is filled in here, when it is sent.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from shoal.admit.sending import sent_url
from shoal.clock import Clock
from shoal.errors import SettingsError, SpiderError
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.transport import FetchRequest
from shoal.limits import KB
from shoal.model import Outcome
from shoal.model.proxy_address import with_variables
from shoal.model.request import Request
from shoal.settings import Settings
from shoal.text import hide

SECONDS = 15.0  # for one delivery: a receiver notes it and does its work later
_ANSWER = 4 * KB  # bytes of the answer that are read
_HIDDEN = 8  # characters of a path that may be a token; a shorter one would blot out harmless text
_HOW = "write it like https://hooks.example.com/shoal"


class Receiver(Struct, frozen=True):
    """One webhook."""

    number: int  # its place in the setting, from 1
    url: str
    headers: dict[str, str]  # its user and password, if the address has them
    secrets: tuple[str, ...]

    @property
    def name(self) -> str:
        """Without what may be secret: "webhook 1 (hooks.example.com)"."""
        return f"webhook {self.number} ({urlsplit(self.url).netloc})"

    def __repr__(self) -> str:
        return f"<Receiver {self.name}>"


def read_receivers(settings: Settings, environ: Mapping[str, str]) -> tuple[Receiver, ...]:
    """The webhooks of the settings. What is secret of them is in no log from now on."""
    secrets = tuple(
        _filled(text, environ, "webhook_secret") for text in listed(settings.webhook_secret) if text
    )
    for secret in secrets:
        hide(secret)
    return tuple(
        _receiver(number, _filled(text, environ, f"webhook: number {number}"), secrets)
        for number, text in enumerate(listed(settings.webhook), 1)
    )


def listed(setting: str | list[str]) -> list[str]:
    if isinstance(setting, str):
        return [setting] if setting.strip() else []
    return setting


def _filled(text: str, environ: Mapping[str, str], what: str) -> str:
    try:
        return with_variables(text.strip(), environ)
    except KeyError as missing:
        raise SettingsError(f"{what}: the variable {missing.args[0]} is not set") from None


def _receiver(number: int, text: str, secrets: tuple[str, ...]) -> Receiver:
    try:
        asked = Request(text)
    except SpiderError:
        asked = Request("")
    url = sent_url(asked.url) if asked.url.lower().startswith(("http://", "https://")) else None
    if url is None:
        raise SettingsError(f"webhook: number {number} is not an address; {_HOW}")
    parts = urlsplit(url)
    for secret in (text, url, parts.path, parts.query):
        if len(secret) >= _HIDDEN:
            hide(secret)
    return Receiver(number, url, asked.headers or {}, secrets)


def signature(body: bytes, at: int, secrets: Sequence[str]) -> str:
    """The header X-Shoal-Signature: when it was signed, and for each secret an HMAC of that moment and the body.
    Without the moment in it, somebody who has read a delivery could send it again a year later."""
    signed = b"%d.%b" % (at, body)
    made = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() for secret in secrets]
    return ",".join([f"t={at}", *(f"v1={one}" for one in made)])


class Sender:
    """Sends deliveries. It has connections of its own: nothing of the crawl goes with them, neither cookies nor headers
    nor proxies. A person wrote the addresses, so they may be private ones; redirects are not followed."""

    def __init__(self, settings: Settings, receivers: Sequence[Receiver], clock: Clock) -> None:
        self._settings = replace(settings, cookies=False, headers={}, host={}, max_body=_ANSWER)
        self._clock = clock
        self._guard = Guard(settings.allow_network)
        for one in receivers:
            parts = urlsplit(one.url)
            self._guard.allow(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        self._transport: HttpTransport | None = None  # made when the first one is sent

    async def send(self, receiver: Receiver, body: bytes, *, id: str, event: str) -> Outcome:
        if self._transport is None:
            self._transport = HttpTransport(self._settings, self._guard, self._clock)
        headers = {
            **receiver.headers,
            "Accept": "*/*",
            "Content-Type": "application/json",
            "X-Shoal-Delivery": id,
            "X-Shoal-Event": event,
        }
        if receiver.secrets:
            headers["X-Shoal-Signature"] = signature(body, int(self._clock.time()), receiver.secrets)
        seconds = min(SECONDS, self._settings.total_timeout)
        return await self._transport.fetch(
            FetchRequest(receiver.url, "POST", headers, body, total_timeout=seconds, truncate=True)
        )

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()
