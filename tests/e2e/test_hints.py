"""What a person is told to type next works as it stands: it names the store that was looked at."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import shoal
from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer

Cli = Callable[..., tuple[int, str, str]]

TYPED = re.compile(
    r"shoal (?:add|cancel|coordinator|crawl (?!again)|dead|hosts|jobs|pause|report|resume|status)\b[^;,]*"
    r"|shoal (?:store|submit|up|why|worker)\b[^;,]*"
)


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    with WebProcess({"site": HostProfile("fast", pages=4)}) as web:
        yield web


@pytest.fixture(params=["file", "valkey"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "my store.db")
    server: ValkeyServer = request.getfixturevalue("valkey_server")
    return f"{server.url}?shards=2&prefix=hints-{uuid4().hex}"


def test_every_hint_names_the_store(
    cli: Cli, web: WebProcess, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    (tmp_path / "one.py").write_text(
        "from shoal import Spider\n"
        f"spider = Spider('one', start={web.url('site')!r}, rate=0, robots=False)\n"
        "@spider.handler\n"
        "def page(page):\n"
        "    raise ValueError('no')\n"
    )
    hosts = web.url("site").split("/")[2].partition(":")[0]
    missed = f"{web.url('site')}missing"
    told: dict[str, list[str]] = {}
    for words in (
        "submit one.py -o rows.jsonl",
        "status",
        "submit one.py --job regular --every 1h -o r.jsonl",
        f"submit {web.url('site')} --job plain -o p.jsonl",
        "status",
        "cancel plain",
        f"why {web.url('site')}",
        "pause one",
        f"add one {missed}",
        "resume one",
        f"add one {missed}2",
        "worker one.py --until-done -s allow_network=127.0.0.0/8 -s max_attempts=1",
        "submit one.py -o rows.jsonl",
        "dead list",
        "dead show 123456",
        f"why {web.url('site')}",
        "why https://nowhere.test/",
        "status",
        "hosts",
        "hosts settings",
        f"hosts show {hosts}",
        "hosts show nowhere.test",
        "store",
        "cancel one --forget",
        "report one",
        "status",
    ):
        _, out, err = cli(*words.split(), "--store", store)
        assert str(Path(shoal.__file__).parent) not in err, "a traceback of our own code"
        said = " ".join(re.sub("[│╭╮╰╯─]", " ", f"{out} {err}").split())  # a long one is wrapped
        told.setdefault(words, []).extend(TYPED.findall(said))
    hints = [(words, hint) for words, found in told.items() for hint in found]
    assert len(hints) >= 12, hints
    for words, hint in hints:
        assert f"--store {shlex.quote(store)}" in hint, (words, hint)


def test_urls_that_were_submitted_without_a_spider_are_done_by_a_worker_without_one(
    cli: Cli, web: WebProcess, tmp_path: Path
) -> None:
    code, _, err = cli(
        "submit", web.url("site"), "--job", "plain", "-o", "rows.jsonl", "--rate", "0", "--no-robots"
    )
    assert (code, "next: shoal up works on it" in err) == (0, True), err
    code, _, err = cli("worker", "--until-done", "-s", "allow_network=127.0.0.0/8", "-s", "robots=false")
    assert code == 0, err
    assert "worker for submitted URLs" in err
    assert len((tmp_path / "rows.jsonl").read_bytes().splitlines()) == 4
