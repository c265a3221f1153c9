"""A transport of the user's: the class that the setting `transport` names, around the built-in one."""

from __future__ import annotations

from shoal.errors import SettingsError
from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import Failure, Outcome, Response
from shoal.settings import Settings
from shoal.spider.loading import import_address
from shoal.spider.spider import place_of_error
from shoal.text import error_line


def with_own_transport(settings: Settings, built_in: Transport) -> Transport:
    """The transport of the settings, which is given the built-in one; without the setting, the built-in one."""
    if not settings.transport:
        return built_in
    kind = import_address("transport", settings.transport)
    try:
        made: Transport = kind(settings, built_in)
    except Exception as error:
        raise SettingsError(
            f"transport: {settings.transport!r} cannot be made: {error_line(error)}; "
            "it is called with the settings and the built-in transport"
        ) from error
    for verb in ("fetch", "close"):
        if not callable(getattr(made, verb, None)):
            raise SettingsError(f"transport: {settings.transport!r} is not a transport: it needs {verb}()")
    return _OwnTransport(settings.transport, made)


class _OwnTransport:
    """What goes wrong in it is a failure of the page that names it, and is tried again."""

    def __init__(self, name: str, inner: Transport) -> None:
        self._name = name
        self._inner = inner

    async def fetch(self, request: FetchRequest) -> Outcome:
        try:
            outcome: object = await self._inner.fetch(request)
        except Exception as error:
            where = place_of_error(error)
            at = f" ({where})" if where else ""
            return Failure("transport", f"transport {self._name}{at}: {error_line(error)}")
        if isinstance(outcome, Response | Failure):
            return outcome
        return Failure(
            "transport",
            f"transport {self._name}: it returned a {type(outcome).__name__}; return a Response or a Failure",
        )

    async def close(self) -> None:
        await self._inner.close()
