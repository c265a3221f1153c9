"""A page as two files, written and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from multidict import CIMultiDict

from shoal.archive.saved_page import (
    DEFAULT_URL,
    SavedPage,
    name_for,
    read_all,
    read_saved,
    save_page,
    saved_in,
    secret_parameters,
)
from shoal.errors import UsageError
from shoal.model import Response, Task

URL = "https://shop.example/lamp"


def saved(
    folder: Path,
    body: bytes = b"<h1>Lamp</h1>",
    url: str = URL,
    *,
    headers: Mapping[str, str] | None = None,
    status: int = 200,
    hops: tuple[str, ...] = (),
    name: str = "",
) -> SavedPage:
    given = CIMultiDict(headers or {"Content-Type": "text/html; charset=utf-8"})
    task = Task(url, hops=hops)
    return save_page(Response(url, status, given, body), folder, task=task, at=1_700_000_000.25, name=name)


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    body = "<p>Größe ½".encode("latin-1")
    headers = {"Content-Type": "text/html; charset=latin-1", "X-Shop": "7"}
    wrote = saved(
        tmp_path / "new" / "pages", body, headers=headers, status=410, hops=("https://shop.example/7",)
    )
    read = read_saved(wrote.path)

    assert wrote.path == tmp_path / "new" / "pages" / "shop.example-lamp.html"
    assert read.response.body == body
    assert (read.response.url, read.response.status) == (URL, 410)
    assert dict(read.response.headers) == headers
    assert (read.task.url, read.task.hops) == (URL, ("https://shop.example/7",))
    assert read.at == 1_700_000_000.25
    assert read_saved(wrote.path.with_suffix(".json")) == read


def test_what_can_be_read_of_it(tmp_path: Path) -> None:
    saved(tmp_path, name="lamp")
    assert json.loads((tmp_path / "lamp.json").read_text()) == {
        "url": URL,
        "headers": {"Content-Type": "text/html; charset=utf-8"},
        "fetched_at": "2023-11-14T22:13:20.250000Z",
        "encoding": "utf-8",
    }


def test_no_secret_is_written(tmp_path: Path) -> None:
    headers = CIMultiDict(
        [
            ("Content-Type", "text/html"),
            ("Set-Cookie", "sid=hush"),
            ("Set-Cookie", "other=hush"),
            ("X-Api-Key", "hush"),
            ("Link", "<https://me:hush@shop.example/a>"),
            ("Link", "</b>"),
            ("Content-Encoding", "gzip"),
            ("Content-Length", "9"),
        ]
    )
    wrote = saved(tmp_path, url="https://me:hush@shop.example/?password=hush", headers=headers)

    assert "hush" not in wrote.path.with_suffix(".json").read_text()
    assert "hush" not in wrote.path.name
    read = read_saved(wrote.path).response.headers
    assert sorted(set(read)) == ["Content-Type", "Link"]
    assert len(read.getall("Link")) == 2


def test_a_header_that_is_not_text(tmp_path: Path) -> None:
    wrote = saved(tmp_path, headers={"Content-Type": "text/html", "X-Odd": "a\udcffb"})
    assert read_saved(wrote.path).response.headers["X-Odd"].startswith("a")


@pytest.mark.parametrize(
    ("content_type", "body", "name"),
    [
        ("text/html", b"<p>", "page.html"),
        ("application/xhtml+xml", b"<html/>", "page.html"),
        ("application/rss+xml", b"<rss/>", "page.xml"),
        ("text/xml", b"<urlset/>", "page.xml"),
        ("application/json", b"{}", "page.body.json"),
        ("application/ld+json", b"{}", "page.body.json"),
        ("text/plain", b"hello", "page.txt"),
        ("application/pdf", b"%PDF", "page.pdf"),
        ("odd/odd", b"?", "page.bin"),
        ("", b"<html><p>", "page.html"),
        ("", b"hello", "page.txt"),
    ],
)
def test_the_body_has_the_suffix_of_its_type(
    tmp_path: Path, content_type: str, body: bytes, name: str
) -> None:
    wrote = saved(tmp_path, body, headers={"Content-Type": content_type}, name="page")
    assert wrote.path.name == name
    assert read_saved(wrote.path).response.body == body
    assert read_saved(tmp_path / "page.json").response.body == body
    assert saved_in(tmp_path) == [wrote.path]


def test_a_page_is_replaced_by_a_newer_one_of_its_url_only(tmp_path: Path) -> None:
    first = saved(tmp_path, b"<p>1")
    other = saved(tmp_path, b"<p>2", url=f"{URL}/")  # the same name
    again = saved(tmp_path, b"{}", headers={"Content-Type": "application/json"})

    assert not first.path.exists()
    assert read_saved(tmp_path / "shop.example-lamp.json").response.body == b"{}"
    assert read_saved(other.path).response.body == b"<p>2"
    assert saved_in(tmp_path) == sorted([other.path, again.path])
    with pytest.raises(UsageError, match="choose another name"):
        saved(tmp_path, url=f"{URL}?other", name="shop.example-lamp")


def test_a_file_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "shop.example-lamp.html").write_text("mine")
    (tmp_path / "shop.example-lamp-2.json").write_text("[1]")
    assert saved(tmp_path).path.name == "shop.example-lamp-3.html"


def test_a_body_alone_is_a_page(tmp_path: Path) -> None:
    path = tmp_path / "list.html"
    path.write_text("<p>alone")
    read = read_saved(path)
    assert (read.response.url, read.response.status) == (DEFAULT_URL, 200)
    assert read.response.headers["content-type"] == "text/html"
    assert read_saved(path, url=URL).response.url == URL
    data = tmp_path / "data.json"
    data.write_text("[1]")
    assert read_saved(data).response.headers["content-type"] == "application/json"
    assert saved_in(tmp_path) == []


def test_two_pages_of_one_url_are_told(tmp_path: Path) -> None:
    saved(tmp_path / "a"), saved(tmp_path / "b", url=f"{URL}/2")
    assert len(read_all(tmp_path)) == 2
    saved(tmp_path / "b")
    with pytest.raises(UsageError, match=r"a/shop.example-lamp.html and .*b/shop.example-lamp.html are both"):
        read_all(tmp_path)


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.html cannot be read: No such file"):
        read_saved(tmp_path / "none.html")
    wrote = saved(tmp_path)
    wrote.path.with_suffix(".json").write_text('{"url": "https://a.example/", "stauts": 200}')
    with pytest.raises(UsageError, match=r"does not describe a page: .*stauts.*shoal keep"):
        read_saved(wrote.path)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://shop.example/", "shop.example"),
        ("https://shop.example/a/lamp.html?id=7&x=%20#top", "shop.example-a-lamp-id-7-x-20-top"),
        ("https://shop.example/api/v1.2/data.json", "shop.example-api-v1.2-data"),
        ("https://shop.example?a.json", "shop.example-a.json"),
        ("https://shop.example/../..", "shop.example"),
        ("https://bücher.example/größe", "b-cher.example-gr-e"),
        ("https:///", "page"),
        ("https://shop.example/a?api_key=K7&id=3&X-Token=t;pwd=p", "shop.example-a-api_key-id-3-X-Token-pwd"),
    ],
)
def test_names(url: str, name: str) -> None:
    assert name_for(url) == name


def test_secrets_in_a_url_are_named() -> None:
    assert secret_parameters("https://shop.example/a?api_key=K7&id=3&X-Token=t") == ["api_key", "X-Token"]
    assert secret_parameters("https://shop.example/token?key=1") == []


def test_long_names_differ() -> None:
    one, two = (name_for(f"https://shop.example/{'a' * 500}{end}") for end in "xy")
    assert one != two
    assert len(one) == len(two) == 80
