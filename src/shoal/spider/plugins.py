"""Plugins: objects whose methods are hooks. They are given to a spider, or named in the setting `plugins`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from shoal.errors import SettingsError, SpiderError
from shoal.model import DeadLetter
from shoal.settings import Settings
from shoal.spider.hooks import KINDS, Hook, Hooks, JobSummary, OutgoingRequest
from shoal.spider.loading import import_address
from shoal.spider.page import Page
from shoal.spider.spider import Spider, place_of_error
from shoal.text import error_line

GROUP = "shoal.plugins"  # of entry points


class Plugin:
    """A base class for plugins. It is optional: any object with some of these methods is a plugin.

    Each method is a hook like the decorator of the same name of a spider, and may be async. The constructor is given
    the keys of the plugin's table in the setting `plugin_options`.
    """

    order: float = 0.0  # of all its hooks; lower runs first

    def before_request(self, request: OutgoingRequest) -> Any: ...
    def after_response(self, page: Page) -> Any: ...
    def on_item(self, item: Any, page: Page) -> Any: ...
    def on_job_start(self, job: JobSummary) -> Any: ...
    def on_job_end(self, job: JobSummary) -> Any: ...
    def on_process_start(self) -> Any: ...
    def on_process_end(self) -> Any: ...
    def on_dead_letter(self, letter: DeadLetter) -> Any: ...


def hooks_of(spider: Spider, settings: Settings) -> Hooks:
    """All hooks of a spider: of the plugins in the settings, of those that were given to it, and its own functions."""
    for hook in spider.hooks:
        for name in hook.handlers or ():
            if name not in spider.handlers:
                raise SpiderError(
                    f"{hook}: spider {spider.name!r} has no handler named {name!r}; it has {', '.join(spider.handlers)}"
                )
    named = [_made(entry, settings) for entry in settings.plugins]
    plugins = [hook for plugin in (*named, *spider.plugins) for hook in hooks_in(plugin)]
    return Hooks([*plugins, *spider.hooks])


def check_plugins(settings: Settings) -> None:
    """Raises an error if a plugin of the settings cannot be found. None is made."""
    for entry in settings.plugins:
        _class_at(entry)
    for name, options in settings.plugin_options.items():
        if name not in settings.plugins:
            raise SettingsError(f"plugin_options: {name!r} is not among the plugins; add it to plugins")
        try:
            msgspec.json.encode(options)
        except (TypeError, ValueError, RecursionError):
            raise SettingsError(
                f"plugin_options: those of {name!r} are no plain values, which other processes could be given; "
                "give the spider a plugin that is made: plugins=[Class(…)]"
            ) from None


def hooks_in(plugin: object) -> Sequence[Hook]:
    """The hooks of a plugin."""
    name, order = type(plugin).__name__, getattr(plugin, "order", 0.0)
    if isinstance(plugin, type) or not (found := list(_methods(plugin))):
        what = f"{plugin.__name__} is a class: give an object of it" if isinstance(plugin, type) else name
        raise SpiderError(f"plugins: {what} has none of the methods {', '.join(KINDS)}")
    if isinstance(order, bool) or not isinstance(order, int | float) or order != order:
        raise SpiderError(f"plugins: {name}: its order is {order!r}; give a number: lower runs first")
    return [Hook(kind, method, f"{name}.{kind}", order) for kind, method in found]


def _methods(plugin: object) -> Iterator[tuple[Any, Any]]:
    for kind in KINDS:
        method = getattr(plugin, kind, None)
        if callable(method) and getattr(method, "__func__", None) is not getattr(Plugin, kind):
            yield kind, method


# -- finding them


def _made(entry: str, settings: Settings) -> object:
    kind = _class_at(entry)
    try:
        # A date becomes a text: other processes get it as one.
        plugin: object = kind(**msgspec.to_builtins(settings.plugin_options.get(entry, {})))
    except SettingsError:
        raise
    except Exception as error:
        where = place_of_error(error)
        at = f" ({where})" if where else ""
        raise SettingsError(f"plugins: {entry!r} cannot be made{at}: {error_line(error)}") from error
    hooks_in(plugin)
    return plugin


def _class_at(entry: str) -> Any:
    """What makes the plugin: the class at an address, or of an entry point."""
    return import_address("plugins", entry) if ":" in entry else _installed(entry)


def _installed(name: str) -> Any:
    from importlib.metadata import entry_points

    known = entry_points(group=GROUP)
    chosen = [point for point in known if point.name == name]
    if not chosen:
        names = ", ".join(sorted(known.names)) or "none"
        raise SettingsError(
            f"plugins: no plugin named {name!r} is installed (there are: {names}); write its name, or module:Class"
        )
    try:
        return chosen[0].load()
    except (Exception, SystemExit) as error:
        raise SettingsError(
            f"plugins: {name!r} ({chosen[0].value}) cannot be imported: {error_line(error)}"
        ) from error
