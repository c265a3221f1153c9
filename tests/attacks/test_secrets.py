"""A password in a redirect is in no file, no log line and no dead letter."""

from __future__ import annotations

import msgspec

from attacks.stage import Villain
from crash.harness import Desk

SECRET = "hunter2"
HANDLER = """
from shoal import Spider

spider = Spider("lured", start={start!r}, robots=False, rate=0, max_redirects=2, any_host=True)


@spider.handler
def page(page):
    raise ValueError("cannot read " + page.headers.get("X-Next", ""))
"""


def redirect(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


def test_a_password_in_a_redirect_is_nowhere(desk: Desk) -> None:
    with Villain({}) as villain:
        here = f"{villain.addresses[0]}:{villain.port}"
        login = f"http://me:{SECRET}@{here}"
        villain.answers = {
            "/": redirect(f"{login}/1"),
            **{f"/{n}": redirect(f"{login}/{n + 1}") for n in range(1, 9)},
            "/scheme": redirect(f"ftp://me:{SECRET}@{here}/"),
            "/junk": redirect(f"http://me:{SECRET}@[nowhere/"),
            "/odd": redirect(f"http:/\\me:{SECRET}@127.0.0.1:1/"),
            "/bare": redirect(f"https:me:{SECRET}@{here}:99999/"),
            "/long": redirect(f"{login}/" + "x" * 5_000),
            "/page": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Next: " + f"{login}/\r\n\r\n".encode(),
        }
        paths = ("/", "/scheme", "/junk", "/odd", "/bare", "/long", "/page")
        starts = [villain.url(path) for path in paths]
        spider = desk.file("lured.py", HANDLER.format(start=starts))
        process = desk.run(
            "crawl", spider, "-o", "rows.jsonl", "--log-level", "debug", "-s", "max_attempts=1"
        )
    assert process.code() == 1, process.err  # every page failed, as was meant
    shown = desk.finish("dead", "list", "--json").out
    assert len(msgspec.json.decode(shown)) == len(paths), shown
    said = process.err + process.out + shown
    assert "redirects, the last to" in said
    assert "cannot read http://" in said
    assert SECRET not in said
    for path in desk.folder.rglob("*"):
        if path.is_file() and path.name != "lured.py":
            assert SECRET.encode() not in path.read_bytes(), path
