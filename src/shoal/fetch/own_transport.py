"""A transport of the user's: the class that the setting `transport` names, around the built-in one."""

from __future__ import annotations

from collections.abc import Callable

from shoal.errors import SettingsError
from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import Failure, Outcome, Response
from shoal.settings import Settings
from shoal.spider.loading import import_address
from shoal.spider.spider import place_of_error
from shoal.text import error_line


def with_own_transport(settings: Settings, make_built_in: Callable[[], Transport]) -> Transport:
    """The transport of the settings, which is given the built-in one; without the setting, the built-in one."""
    if not settings.transport:
        return make_built_in()
    kind = import_address("transport", settings.transport)
    built_in = _BuiltIn()
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
    built_in.made = make_built_in()  # only now: one that was made must be closed
    return _OwnTransport(settings.transport, made, built_in.made)


class _BuiltIn:
    """Given to the user's transport. It is closed by us, whether that one uses it or not."""

    made: Transport

    async def fetch(self, request: FetchRequest) -> Outcome:
        return await self.made.fetch(request)

    async def close(self) -> None:
        pass


class _OwnTransport:
    """What goes wrong in it is a failure of the page that names it, and is tried again."""

    def __init__(self, name: str, inner: Transport, built_in: Transport) -> None:
        self._name = name
        self._inner = inner
        self._built_in = built_in

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
        try:
            await self._inner.close()
        finally:
            await self._built_in.close()
