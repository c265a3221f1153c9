"""Plugins: found by address or by name, made with their options, refused with one line; the order of hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from shoal import Plugin, Spider
from shoal.config import load
from shoal.errors import SettingsError, SpiderError
from shoal.settings import Settings
from shoal.spider.hooks import GIVEN, KINDS, HookKind, Hooks
from shoal.spider.plugins import check_plugins, hooks_of

MODULE = """
class Tidy:
    order = 5
    def __init__(self, strict=False):
        self.strict = strict
    def on_item(self, item, page):
        pass
    async def on_process_start(self):
        pass

class Nothing:
    pass

class Broken:
    def __init__(self):
        raise ValueError("no server")
    def on_item(self, item, page):
        pass

text = "text"
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_plugins.py").write_text(MODULE)
    (tmp_path / "bad_plugins.py").write_text("import nowhere_at_all")
    info = tmp_path / "tidy_up-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tidy-up\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[shoal.plugins]\ntidy = own_plugins:Tidy\nlost = own_plugins:Lost\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("own_plugins", "bad_plugins"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def spider(*plugins: object, **settings: Any) -> Spider:
    spider = Spider("s", start="https://a.example/", plugins=[*plugins], **settings)
    spider.add_handler(lambda page: None, name="h")
    return spider


def made(spider: Spider, **flags: object) -> Hooks:
    return hooks_of(spider, load(Path("/dev/null"), spider.settings, {}, flags))


def test_by_address_with_options_and_by_name() -> None:
    options = {"own_plugins:Tidy": {"strict": True}}
    hooks = made(spider("own_plugins:Tidy", "tidy", plugin_options=options))
    assert [hook.name for hook in hooks.on_item] == ["Tidy.on_item", "Tidy.on_item"]
    assert [hook.function.__self__.strict for hook in hooks.on_item] == [True, False]  # type: ignore[attr-defined]
    assert len(hooks.on_process_start) == 2
    assert not hooks.before_request


def test_being_installed_activates_nothing() -> None:
    assert repr(made(spider())) == "<Hooks: none>"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("nowhere:Class", "'nowhere:Class' cannot be imported: ModuleNotFoundError"),
        ("bad_plugins:Class", "cannot be imported: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("own_plugins:Missing", "own_plugins has no class Missing"),
        ("own_plugins:text", "own_plugins has no class text"),
        ("own_plugins:", "is not an address"),
        ("tidi", "no plugin named 'tidi' is installed (there are: "),
        ("lost", "'lost' (own_plugins:Lost) cannot be imported"),
    ],
)
def test_one_that_is_not_there_is_told_in_one_line(entry: str, said: str) -> None:
    with pytest.raises(SettingsError) as error:
        check_plugins(Settings(plugins=[entry]))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("entry", "options", "said"),
    [
        ("own_plugins:Nothing", {}, "Nothing has none of the methods before_request"),
        ("own_plugins:Broken", {}, "own_plugins.py:"),
        ("own_plugins:Tidy", {"strikt": 1}, "cannot be made: TypeError"),
    ],
)
def test_one_that_cannot_be_made(entry: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises((SettingsError, SpiderError)) as error:
        made(spider(entry, plugin_options={entry: options}))
    assert said in str(error.value)


def test_options_of_nobody_are_told() -> None:
    with pytest.raises(SettingsError, match="'own_plugins:Tidi' is not among the plugins"):
        check_plugins(Settings(plugins=["own_plugins:Tidy"], plugin_options={"own_plugins:Tidi": {}}))


def test_order_then_plugins_then_the_file() -> None:
    class Early(Plugin):
        order = -1

        def on_item(self, item: Any, page: Any) -> None: ...

    class Plain(Plugin):
        def on_item(self, item: Any, page: Any) -> None: ...

    mine = spider(Plain(), "own_plugins:Tidy", Early())

    @mine.on_item(order=9)
    def last(item: Any, page: Any) -> None: ...

    @mine.on_item
    def first_own(item: Any, page: Any) -> None: ...

    @mine.on_item(order=5)
    def second(item: Any, page: Any) -> None: ...

    names = [hook.name for hook in made(mine).on_item]
    assert names == ["Early.on_item", "Plain.on_item", "first_own", "Tidy.on_item", "second", "last"]


def anything(*_: object) -> None: ...


def test_every_kind_has_a_decorator_and_a_method() -> None:
    mine = spider()
    for kind in KINDS:
        decorate: Callable[..., Any] = getattr(mine, kind)
        assert decorate(anything) is anything
        assert decorate(order=1)(anything) is anything
        assert hasattr(Plugin, kind)
    hooks = made(mine)
    assert all(len(getattr(hooks, kind)) == 2 for kind in KINDS)


@pytest.mark.parametrize("given", [Plugin, Plugin(), object(), 7])
def test_what_is_no_plugin(given: object) -> None:
    with pytest.raises(SpiderError, match="has none of the methods"):
        made(spider(given))


def test_what_is_no_hook() -> None:
    mine = spider()
    with pytest.raises(SpiderError, match="a hook is a function, not 7"):
        mine.add_hook("on_item", 7)  # type: ignore[arg-type]
    with pytest.raises(SpiderError, match="order is 'first'; give a number"):
        mine.add_hook("on_item", anything, order="first")  # type: ignore[arg-type]
    mine.add_hook("on_item", anything, handler="products")
    with pytest.raises(
        SpiderError, match="on_item hook anything: spider 's' has no handler named 'products'; it has h"
    ):
        made(mine)


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_takes_other_arguments_is_told_before_the_crawl(kind: HookKind) -> None:
    given = GIVEN[kind]

    def four(a: object, b: object, c: object, d: object) -> None: ...

    with pytest.raises(SpiderError) as error:
        spider().add_hook(kind, four)
    assert f"{kind} hook four cannot be called with ({', '.join(given)})" in str(error.value)
    assert str(error.value).endswith(f"write def four({', '.join(given)})")
    wrong = type("Wrong", (), {kind: lambda self, a, b, c: None})()
    with pytest.raises(SpiderError, match=f"{kind} hook Wrong.{kind} cannot be called with"):
        made(spider(wrong))


def test_options_that_no_other_process_can_be_given() -> None:
    tidy = "own_plugins:Tidy"
    with pytest.raises(SettingsError, match="are no plain values"):
        check_plugins(Settings(plugins=[tidy], plugin_options={tidy: {"strict": len}}))
    hooks = made(spider(tidy, plugin_options={tidy: {"strict": date(2026, 1, 2)}}))
    assert hooks.on_item[0].function.__self__.strict == "2026-01-02"  # type: ignore[attr-defined]
