"""The cookie jar against RFC 6265bis, and against two other jars as second opinions."""

from __future__ import annotations

import itertools
from http.cookiejar import http2time
from time import process_time, time

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from shoal.fetch.cookie_jar import Cookie, CookieJar, NoCookies, parse_cookie, parse_date

PAGE = URL("https://www.shop.example/a/b")
NOW = 1_800_000_000.0


def jar_with(*lines: str, url: URL = PAGE) -> CookieJar:
    jar = CookieJar()
    jar.set(lines, url)
    return jar


def sent(jar: CookieJar, url: str) -> str:
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar.cookies_for(URL(url)))


# -- what is taken


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("a=1", "a", "1"),
        (" a = 1 ;x", "a", "1"),
        ('a="1; 2"', "a", '"1'),  # a semicolon ends it, as in browsers, also in quotes
        ('a="1 2"', "a", '"1 2"'),
        ("a=b=c", "a", "b=c"),
        ("a=", "a", ""),
        ("a b=1, 2", "a b", "1, 2"),
        ("ä=ü", "ä", "ü"),
    ],
)
def test_the_name_and_the_value_are_as_they_were_sent(line: str, name: str, value: str) -> None:
    cookie = parse_cookie(line, PAGE, NOW)
    assert cookie is not None
    assert (cookie.name, cookie.value) == (name, value)


@pytest.mark.parametrize(
    "line",
    [
        *("", ";", "a", "=1", "a=1\x00", "a\r=1", "a=1; Path=/\x7f", "a=\udc80"),
        *("a=1; Domain=other.example", "a=1; Domain=b.www.shop.example", "a=1; Domain=example"),
        *("a=1; Domain=op.example", "a=1; Domain=www.shop.example.", "a=1; Domain=..shop.example"),
        *("__Secure-a=1", "__Host-a=1; Secure; Path=/a", "__host-a=1; Secure; Path=/; Domain=shop.example"),
        "__Host-a=1; Path=/",
    ],
)
def test_what_may_not_be_set_is_refused(line: str) -> None:
    assert len(jar_with(line)) == 0


def test_a_cookie_that_promises_its_path_names_it() -> None:
    page = URL("https://www.shop.example/")
    assert len(jar_with("__Host-a=1; Secure", url=page)) == 0
    assert len(jar_with("__Host-a=1; Secure; Path=/", url=page)) == 1


def test_only_a_secure_answer_sets_a_secure_cookie() -> None:
    assert len(jar_with("a=1; Secure", url=PAGE.with_scheme("http"))) == 0
    assert len(jar_with("a=1; Secure")) == 1


@pytest.mark.parametrize(
    "line", ["a=0", "a=; Max-Age=0", "a=0; Path=/a/b", "a=0; Domain=shop.example; Path=/a"]
)
def test_a_plain_answer_leaves_secure_cookies_alone(line: str) -> None:
    """Otherwise whoever is on the line could log a session out, or have it go on with another one."""
    jar = jar_with("a=1; Secure")
    jar.set([line], PAGE.with_scheme("http"))
    assert [cookie.value for cookie in jar] == ["1"]
    jar.set([line], PAGE)
    assert [cookie.value for cookie in jar] != ["1"]


@pytest.mark.parametrize("line", ["b=0", "a=0; Path=/"])
def test_a_plain_answer_sets_what_hides_no_secure_cookie(line: str) -> None:
    jar = jar_with("a=1; Secure")
    jar.set([line], PAGE.with_scheme("http"))
    assert len(jar) == 2


def test_a_public_suffix_that_is_a_host_has_cookies_of_its_own() -> None:
    [cookie] = jar_with("a=1; Domain=github.io", url=URL("https://github.io/"))
    assert cookie.host_only


def test_the_last_attribute_of_a_name_holds() -> None:
    [cookie] = jar_with("a=1; Path=/x; PATH=/y; Max-Age=x; SameSite=odd; samesite=Lax; HttpOnly=no")
    assert (cookie.path, cookie.expires, cookie.same_site, cookie.http_only) == ("/y", None, "Lax", True)


@pytest.mark.parametrize(
    ("page", "path"),
    [("/a/b", "/a"), ("/a/", "/a"), ("/a", "/"), ("/", "/"), ("", "/"), ("/a%2Fb/c?d=/e", "/a%2Fb")],
)
def test_a_cookie_without_a_path_is_for_the_folder_of_its_page(page: str, path: str) -> None:
    [cookie] = jar_with("a=1; Path=relative", url=URL(f"https://www.shop.example{page}", encoded=True))
    assert cookie.path == path


def test_too_long_an_attribute_is_left_out() -> None:
    [cookie] = jar_with(f"a=1; Path=/{'x' * 1_024}")
    assert cookie.path == "/a"


def test_a_line_of_countless_attributes_takes_little_time() -> None:
    started = process_time()
    assert len(jar_with("a=1" + ";" * 250_000)) == 1
    assert process_time() - started < 0.5


def test_a_jar_that_takes_none_stays_empty() -> None:
    jar = NoCookies()
    jar.set(["a=1"], PAGE)
    assert len(jar) == 0


def test_a_cookie_of_the_host_and_one_of_the_domain_are_two() -> None:
    """Servers that move a cookie to the domain delete the one of the host: the new one must stay."""
    page = URL("https://shop.example/")
    jar = jar_with("a=1; Domain=shop.example", "a=2", url=page)
    assert sent(jar, "https://shop.example/") == "a=1; a=2"
    jar.set(["a=; Max-Age=0"], page)
    assert sent(jar, "https://shop.example/") == "a=1"


# -- how long


@pytest.mark.parametrize(
    ("line", "expires"),
    [
        ("a=1; Max-Age=60", NOW + 60),
        ("a=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", NOW + 60),
        ("a=1; Max-Age=+60", None),
        ("a=1; Max-Age=1e3", None),
        ("a=1; Max-Age=" + "9" * 400, NOW + 400 * 86_400),
        ("a=1; Max-Age=0", 0),
        ("a=1; Max-Age=-5", 0),
        ("a=1; Expires=tomorrow", None),
        ("a=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT", NOW + 400 * 86_400),
    ],
)
def test_how_long_it_lasts(line: str, expires: float | None) -> None:
    cookie = parse_cookie(line, PAGE, NOW)
    assert cookie is not None
    assert cookie.expires == expires


def test_one_that_has_expired_deletes_it() -> None:
    jar = jar_with("a=1; Path=/", "b=1; Path=/")
    jar.set(["a=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "b=; Path=/other; Max-Age=0"], PAGE)
    assert [cookie.name for cookie in jar] == ["b"]


def test_what_expires_in_the_jar_is_sent_no_more() -> None:
    jar = CookieJar()
    jar.add(Cookie("a", "1", "www.shop.example", "/", expires=time() - 1), now=time() - 2)
    assert len(jar) == 1
    assert jar.cookies_for(PAGE) == []


DAYS, MONTHS = ("Sun", "Sunday,", "Sun,"), ("nov", "November", "NOV")
DATES = [
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
    *(
        f"{day} 6 {month} {year} 08:49:37"
        for day, month, year in itertools.product(DAYS, MONTHS, ("1994", "94"))
    ),
]


@pytest.mark.parametrize("text", DATES)
def test_dates_are_read_however_they_are_written(text: str) -> None:
    assert parse_date(text) == 784_111_777.0


@pytest.mark.parametrize(
    "text",
    [
        *("", "06 Nov 1994", "08:49:37", "Nov 1994 08:49:37", "06 1994 08:49:37", "06 Nov 08:49:37"),
        *("31 Feb 2030 00:00:00", "06 Nov 1994 24:00:00", "06 Nov 1600 00:00:00", "006 Nov 1994 08:49:37"),
    ],
)
def test_what_is_no_date(text: str) -> None:
    assert parse_date(text) is None


@given(
    st.integers(0, 4_102_444_800), st.sampled_from(["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT"])
)
def test_dates_are_what_the_standard_library_reads(at: int, form: str) -> None:
    from datetime import UTC, datetime

    text = datetime.fromtimestamp(at, UTC).strftime(form)
    theirs = http2time(text)
    if "%y" not in form or 1970 <= datetime.fromtimestamp(at, UTC).year <= 2069:
        assert parse_date(text) == at
    if "%Y" in form:
        assert theirs == at


# -- what is sent


def test_longer_paths_come_first_then_older_cookies() -> None:
    jar = jar_with("a=1; Path=/", "b=1; Path=/a", "c=1; Path=/", "a=2; Path=/a/b", "a=3; Path=/")
    assert sent(jar, "https://www.shop.example/a/b") == "a=2; b=1; a=3; c=1"


def test_a_path_is_matched_by_its_folders() -> None:
    jar = jar_with("a=1; Path=/ab", "b=1; Path=/ab/")
    assert [
        sent(jar, f"https://www.shop.example{path}") for path in ("/ab", "/ab/", "/ab/c", "/abc", "/")
    ] == [*("a=1", "b=1; a=1", "b=1; a=1", "", "")]


def test_the_least_lately_used_make_room() -> None:
    jar = jar_with("first=1; Path=/only", "second=1")
    for number in range(200):
        jar.set([f"c{number}=1; Path=/c"], PAGE)
        jar.cookies_for(URL("https://www.shop.example/only"))
    names = {cookie.name for cookie in jar}
    assert "first" in names
    assert "second" not in names
    assert "c199" in names


def test_a_full_jar_takes_cookies_in_little_time() -> None:
    """A jar is filled anew whenever the store has something else."""
    jar = CookieJar()
    started = process_time()
    for number in range(3_200):
        jar.add(Cookie(f"c{number}", "1", f"{number % 32}.shop.example", "/"))
    assert len(jar) == 3_200
    assert process_time() - started < 1


# -- other jars


HOSTS = ("www.shop.example", "shop.example", "x.www.shop.example", "other.example", "127.0.0.1")
LINES = st.builds(
    # Of a cookie for the host and one for its domain, aiohttp has one.
    lambda name, parts: "; ".join([f"{name}{'Domain=' in ''.join(parts)}=1", *parts]),
    st.sampled_from(["a", "b"]),
    st.lists(
        st.sampled_from(
            [
                *("Path=/", "Path=/a", "Path=/a/b", "Path=x", "Path", "Domain=shop.example"),
                *("Domain=.shop.example", "Domain=www.shop.example", "Domain=other.example", "HttpOnly"),
                *(
                    "Max-Age=1000",
                    "Max-Age=0",
                    "Expires=Wed, 21 Oct 2037 07:28:00 GMT",
                    "SameSite=Lax",
                    "x=y",
                ),
                *("Expires=Thu, 01 Jan 1970 00:00:01 GMT", "Secure"),  # aiohttp overlooks the second before
            ]
        ),
        max_size=4,
        unique_by=lambda part: part.partition("=")[0],
    ),
)


@given(st.lists(LINES, max_size=4), st.sampled_from(HOSTS[:3]), st.sampled_from(["/a/b", "/a/", "/", "/a"]))
async def test_it_agrees_with_the_jar_of_aiohttp(lines: list[str], host: str, path: str) -> None:
    """Of a name aiohttp sends one cookie, and to it `/a` and `/a/` are the same path."""
    url = URL(f"https://{host}{path}")
    theirs = aiohttp.CookieJar(unsafe=True, quote_cookie=False)
    theirs.update_cookies_from_headers(lines, url)
    ours = jar_with(*lines, url=url)
    for scheme, where, asked in itertools.product(("https", "http"), HOSTS, ("/a/b", "/a/", "/", "/ax")):
        target = URL(f"{scheme}://{where}{asked}")
        assert {one.name for one in ours.cookies_for(target)} == set(theirs.filter_cookies(target)), target
