"""Texts: settings, addresses of stores and databases, times of day, URLs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from shoal import config
from shoal.admit import Admission, trap
from shoal.admit.canonical import Canonicaliser
from shoal.admit.identity import fingerprint, host_key, origin, site
from shoal.admit.sending import sent_url, typed_url
from shoal.errors import UrlError, UsageError
from shoal.fetch.proxy.pools import load_pools
from shoal.frontier.redis.address import Address
from shoal.html.page_links import largest_number, query_value, with_query_value
from shoal.jobs.cron import parse_cron
from shoal.model import Refused, Task
from shoal.model.request import Request
from shoal.settings import PoolSettings, Settings
from shoal.sink.postgres.address import read_address
from shoal.testing.fuzz.target import Run, as_text, lines


def settings(data: bytes) -> None:
    """Settings from a flag, the environment or a file are checked, or refused in one line."""


@contextmanager
def open_settings() -> Iterator[Run]:
    with tempfile.TemporaryDirectory(prefix="shoal-fuzz-") as folder:
        file = Path(folder) / "shoal.toml"

        def run(data: bytes) -> None:
            key, value, toml = lines(data, 3)
            file.write_bytes(toml)
            name, text = as_text(key), as_text(value)
            _refused(lambda: config.load(file, {}, {}, {}))
            _refused(lambda: config.load(_nothing(folder), {}, {}, {name: text}))
            _refused(lambda: config.load(_nothing(folder), {}, {f"SHOAL_{name.upper()}": text}, {}))

        yield run


@lru_cache(1)
def _nothing(folder: str) -> Path:
    """An empty file, instead of a shoal.toml that happens to lie in the current directory."""
    path = Path(folder) / "empty.toml"
    path.touch()
    return path


def _refused(attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except UsageError as error:
        check_line(str(error))


def addresses(data: bytes) -> None:
    """Addresses of stores, databases and proxies are read, or refused in one line; none shows its password."""
    text = as_text(data)
    for scheme in ("redis", "unix", "redis+sentinel", "redis+cluster"):
        try:
            shown = str(Address.parse(f"{scheme}://{text}", {}))
        except UsageError as error:
            shown = str(error)
            assert len(shown.splitlines()) == 1, shown
        # What stands behind a socket's first slash, or is a user's name, may be shown.
        may_be_shown = scheme == "unix" or shown.startswith("no password for user")
        assert may_be_shown or "s3cret@" not in shown, "it shows a password"
    try:
        found = read_address(f"postgresql://{text}")
        assert "s3cret@" not in found.shown
    except UsageError as error:
        check_line(str(error))
    _refused(lambda: load_pools(Settings(proxies={"pool": [f"http://{text}"]}), {}))
    gateway = PoolSettings(gateway=f"http://{text}{{url}}")
    _refused(lambda: load_pools(Settings(proxies={"pool": gateway}), {}))
    _refused(lambda: Request("https://a.example/", proxy=f"http://{text}"))


def cron(data: bytes) -> None:
    """A time of day is found within eight years, or refused in one line."""
    try:
        assert parse_cron(as_text(data)).after(1_700_000_000.0) > 1_700_000_000.0
    except UsageError as error:
        check_one_line(str(error))  # no address, so no password: it may show what was written


# -- URLs: as pages write them, as people type them, as redirects name them


_SETTINGS = Settings()
_canonical = Canonicaliser(["extra", "ad_*"])
_START = Task("https://a.example/dir/page?q=1", host="a.example", parent=1, headers={"Cookie": "secret"})


def url(data: bytes) -> None:
    """A URL that is sent is sent again as it is, can be encoded, and has a host key without userinfo or blanks; its
    canonical form is its own canonical form, on the same host."""
    link, base = (as_text(part) for part in lines(data, 2))
    for found in (sent_url(link), sent_url(link, base or "https://a.example/dir/page?q=1", routes=True)):
        if found is not None:
            check_sent(found)


def check_sent(found: str) -> None:
    assert found.startswith(("http://", "https://")), found
    assert sent_url(found, routes=True) == found, "it would be sent in another way"
    canonical = _canonical(found)
    assert _canonical(canonical) == canonical, "canonicalising it again changes it"
    assert host_key(canonical) == host_key(found), "its canonical form is on another host"
    host = host_key(found)
    assert host, "no host"
    assert not set(host) & set(" \t\r\n@/?#\\%"), host
    assert host == host.lower(), host
    assert host_key(origin(found) + "/") == host, "host key and origin differ"
    assert host.endswith(site(host)), site(host)
    assert 0 <= fingerprint(canonical) < 2**63
    found.encode("ascii")
    trap(canonical, _SETTINGS)


def typed(data: bytes) -> None:
    """What a person types is a URL to send, or an error of one line that shows no password."""
    word = as_text(data)
    try:
        found = typed_url(word)
    except UrlError as error:
        check_line(str(error))
        return
    check_sent(found)


def check_one_line(message: str) -> None:
    assert message, "an empty message"
    assert len(message.splitlines()) == 1, message


def check_line(message: str) -> None:
    check_one_line(message)
    assert "s3cret@" not in message, "it shows a password"


def admission(data: bytes) -> None:
    """A link or a redirect becomes a task or is refused with a reason; secrets go to no other
    origin, and what is refused shows no userinfo."""
    link, base = (as_text(part) for part in lines(data, 2))
    admission = Admission(_SETTINGS, ["https://a.example/"])
    parent = _START
    for to in (
        admission.admit(Request(link, base=base or None), parent),
        admission.moved(parent, link, ("a=1",), 303),
    ):
        if isinstance(to, Refused):
            assert to.reason
            assert "@" not in to.url.partition("://")[2].partition("/")[0], "it shows userinfo"
            assert len(to.url) <= _SETTINGS.max_url_length, len(to.url)
            continue
        check_sent(to.url)
        assert to.host == host_key(to.url)
        if origin(to.url) != origin(parent.url):
            assert not to.headers, "a cookie goes to another origin"


def paging(data: bytes) -> None:
    """A parameter that was set in a URL is found there, and numbers in texts are small enough to count with."""
    name, value, url = (as_text(part) for part in lines(data, 3))
    if _is_unicode(name + value):
        assert query_value(with_query_value(url, name, value), name) == value
    query_value(url, name)
    number = largest_number(url)
    assert number is None or 0 <= number < 10**16


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
