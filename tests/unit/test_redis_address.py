"""The address of a store in Valkey or Redis: what it may say, and what is shown of it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from shoal.errors import UsageError
from shoal.frontier.redis.address import Address

SECRET = "hunter2"


def parse(store: str, **environ: str) -> Address:
    return Address.parse(store, environ)


@pytest.mark.parametrize(
    ("store", "hosts", "db", "tls"),
    [
        ("redis://cache", (("cache", 6379),), 0, False),
        ("redis://Cache:7000/3", (("cache", 7000),), 3, False),
        ("valkey://[2001:db8::1]:7000/", (("2001:db8::1", 7000),), 0, False),
        ("rediss://cache/1", (("cache", 6379),), 1, True),
        ("valkeys://cache", (("cache", 6379),), 0, True),
    ],
)
def test_one_server(store: str, hosts: tuple[tuple[str, int], ...], db: int, tls: bool) -> None:
    address = parse(store)
    assert (address.kind, address.hosts, address.db, address.tls) == ("server", hosts, db, tls)
    assert (address.shards, address.prefix) == (1, "shoal")


def test_a_unix_socket() -> None:
    address = parse("unix:///run/my%20valkey.sock?db=2&shards=4")
    assert (address.kind, address.path, address.db, address.shards) == ("server", "/run/my valkey.sock", 2, 4)
    assert str(address) == "unix:///run/my valkey.sock?db=2&shards=4"


def test_sentinels() -> None:
    address = parse("redis+sentinel://a,b:1234/mymaster/2")
    assert (address.kind, address.hosts) == ("sentinel", (("a", 26379), ("b", 1234)))
    assert (address.service, address.db, address.tls) == ("mymaster", 2, False)
    assert str(address) == "redis+sentinel://a:26379,b:1234/mymaster/2"
    assert parse("valkeys+sentinel://a/s").tls


def test_a_cluster_has_more_shards() -> None:
    address = parse("rediss+cluster://a:1,b:2")
    assert (address.kind, address.hosts, address.tls) == ("cluster", (("a", 1), ("b", 2)), True)
    assert address.shards == 16
    assert parse("redis+cluster://a?shards=64&prefix=books").shards == 64
    assert parse("redis+cluster://a?prefix=books").prefix == "books"
    assert parse("redis://a?wait=2").wait == 2
    assert str(parse("redis://a?wait=2")) == "redis://a:6379?wait=2"
    with pytest.raises(UsageError, match="wait in the store's address must be a number from 0 to 10"):
        parse("redis://a?wait=all")


def test_the_password_comes_from_the_address_or_from_the_environment() -> None:
    environ = {"SHOAL_REDIS_USERNAME": "crawler", "SHOAL_REDIS_PASSWORD": "from-environment"}
    assert parse("redis://h", **environ).password == "from-environment"
    assert parse("redis://h", **environ).username == "crawler"
    address = parse("redis://me:p%40ss%2F%3A@h", **environ)
    assert (address.username, address.password) == ("me", "p@ss/:")
    address = parse("redis://:only@h")
    assert (address.username, address.password) == (None, "only")


def test_what_is_shown_has_no_secrets() -> None:
    for store in (
        f"redis://me:{SECRET}@h:1/2?shards=2",
        f"unix://me:{SECRET}@/run/s",
        f"redis+cluster://:{SECRET}@a,b",
    ):
        address = parse(store)
        assert address.password == SECRET
        assert SECRET not in f"{address} {address!r} {[address]}"
        assert "me" not in f"{address}"


def test_files_for_tls(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.touch()
    assert parse(f"rediss://h?ca={file}").ca == str(file)
    address = parse(f"rediss://h?cert={file}&key={file}")
    assert (address.cert, address.key) == (str(file), str(file))
    with pytest.raises(UsageError, match="both"):
        parse(f"rediss://h?cert={file}")
    with pytest.raises(UsageError, match="rediss://"):
        parse(f"redis://h?ca={file}")
    with pytest.raises(UsageError, match="no file"):
        parse("rediss://h?ca=/nowhere.pem")


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("redis://", "no host"),
        ("redis://h:port", "port"),
        ("redis://h:0", "port"),
        ("redis://h:70000", "port"),
        ("redis://h/books", "database"),
        ("redis://h/-1", "database"),
        ("redis://h/²", "database"),
        ("redis://a,b", "redis+cluster://"),
        ("redis+sentinel://a", "which service"),
        ("redis+cluster://a/1", "number 0"),
        ("redis+magic://a", "no store of kind"),
        ("http://a", "no store of kind"),
        ("unix://run/s", "whole path"),
        ("redis://h?shards=0", "shards"),
        ("redis://h?shards=many", "shards"),
        ("redis://h?prefix=a{b}", "prefix"),
        ("redis://h?prefix=", "prefix"),
        ("redis://h?db=1", "last part"),
        ("redis://h?timeout=1", "no option 'timeout'"),
        ("rediss://h?insecure=1", "certificate"),
        ("redis://h#1", "#"),
        ("redis://[::1", "cannot be read"),
        ("redis://me@h", "no password for user 'me'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(store: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(store)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "store",
    [
        f"redis://:{SECRET}/more@h",
        f"redis://me:12#{SECRET}@h",
        f"redis://me:a?{SECRET}@h",
        f"redis://me:{SECRET}@h:x",
        f"redis://me:a/{SECRET}@h/0",
        f"redis://:{SECRET}@[h",
        f"redis+sentinel://me:{SECRET}@h",
        f"redis+cluster://:{SECRET}@h/1",
    ],
)
def test_a_mistyped_address_does_not_give_the_password_away(store: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(store)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("address", ["redis://user:pa/s3cret@host", "redis://user:pa?s3cret@host:6379/0"])
def test_a_password_with_a_slash_is_not_shown_as_an_option_or_a_database(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        Address.parse(address, {})
    assert "s3cret" not in str(caught.value)
    assert "%2F" in str(caught.value)


@pytest.mark.parametrize(
    "address", ["redis://host:" + "1" * 5_000, "redis://host/" + "1" * 5_000, "redis://\udcff"]
)
def test_numbers_beyond_all_and_half_characters_are_refused_in_words(address: str) -> None:
    with pytest.raises(UsageError, match="address"):
        Address.parse(address, {})


@pytest.mark.parametrize(
    "store",
    [
        "redis://h:1",
        "redis://h:1/3?prefix=mine",
        "redis://[2001:db8::1]:7/3?shards=4&prefix=a:b",
        "valkey+cluster://a:1,b:2",
        "valkey+cluster://a:1,b:2?shards=3",
        "redis+sentinel://a:1,b:2/service/4?prefix=mine&shards=2",
        "unix:///run/my valkey.sock?db=2&prefix=mine",
        "unix:///run/a%3Fb%25.sock",
        "rediss://h:1?ca={file}&cert={file}&key={file}&prefix=x",
    ],
)
def test_what_is_shown_may_be_typed_again(store: str, tmp_path: Path) -> None:
    file = tmp_path / "a&b.pem"
    file.write_text("")
    address = Address.parse(store.format(file=quote(str(file))), {})
    assert Address.parse(str(address), {}) == address
