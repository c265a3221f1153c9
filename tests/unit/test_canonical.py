from __future__ import annotations

from operator import itemgetter

import pytest
from ada_url import join_url, normalize_url
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.admit.canonical import Canonicaliser
from shoal.admit.sending import redirect_url, sent_url

BASE = "https://shop.example/dir/page.html?x=1"


def canonical(url: str, base: str | None = None) -> str | None:
    sent = sent_url(url, base)
    return Canonicaliser()(sent) if sent is not None else None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("next.html", "https://shop.example/dir/next.html"),
        ("../up", "https://shop.example/up"),
        ("/root", "https://shop.example/root"),
        ("//other.example", "https://other.example/"),
        ("?y=2", "https://shop.example/dir/page.html?y=2"),
        ("", "https://shop.example/dir/page.html?x=1"),
        ("#top", "https://shop.example/dir/page.html?x=1"),
        ("  /blank \n", "https://shop.example/blank"),
    ],
)
def test_resolves_against_the_base(url: str, expected: str) -> None:
    assert canonical(url, BASE) == expected


ONE_FORM = [
    # host: IDN, case, trailing dot, default port, userinfo, odd numbers
    ("http://BÜCHER.example/", "http://xn--bcher-kva.example/"),
    ("HTTPS://Shop.Example/", "https://shop.example/"),
    ("https://shop.example./a", "https://shop.example/a"),
    ("https://shop.example.:8443/a", "https://shop.example:8443/a"),
    ("http://shop.example:80/", "http://shop.example/"),
    ("https://shop.example:443/", "https://shop.example/"),
    ("http://shop.example:443/", "http://shop.example:443/"),
    ("http://user:secret@shop.example/", "http://shop.example/"),
    ("http://user@shop.example:81/@me", "http://shop.example:81/@me"),
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://[::FFFF:1.2.3.4]:80/", "http://[::ffff:102:304]/"),
    # path: empty, dot segments, escapes, case
    ("http://shop.example", "http://shop.example/"),
    ("http://shop.example/a/./b/../c", "http://shop.example/a/c"),
    ("http://shop.example/a/%2e%2E/c", "http://shop.example/c"),
    ("http://shop.example/a%2fb", "http://shop.example/a%2Fb"),
    ("http://shop.example/%7euser/%41", "http://shop.example/~user/A"),
    ("http://shop.example/ä b", "http://shop.example/%C3%A4%20b"),
    ("http://shop.example/100%", "http://shop.example/100%"),
    ("http://shop.example/%2541", "http://shop.example/%2541"),
    ("http://shop.example/%%34%31", "http://shop.example/%%341"),
    ("http://shop.example/Path", "http://shop.example/Path"),
    ("http://shop.example\\a\\b", "http://shop.example/a/b"),
    ("http://shop.example/a\tb\nc", "http://shop.example/abc"),
    # query and fragment
    ("http://shop.example/?", "http://shop.example/"),
    ("http://shop.example/?#", "http://shop.example/"),
    ("http://shop.example/a#b?c", "http://shop.example/a"),
    ("http://shop.example/?b=2&a=1", "http://shop.example/?a=1&b=2"),
    ("http://shop.example/?a-b=0&a=2&a=1", "http://shop.example/?a=2&a=1&a-b=0"),
    ("http://shop.example/?f[]=b&e=1&f[]=a", "http://shop.example/?e=1&f[]=b&f[]=a"),
    ("http://shop.example/?b=&&a&", "http://shop.example/?a&b="),
    ("http://shop.example/?3&1&2", "http://shop.example/?3&1&2"),
    ("http://shop.example/?c=1&b&a", "http://shop.example/?c=1&b&a"),
    ("http://shop.example/?q=%c3%a4&u=%2f%7E", "http://shop.example/?q=%C3%A4&u=%2F~"),
]


@pytest.mark.parametrize(("url", "expected"), ONE_FORM)
def test_case_25_one_form(url: str, expected: str) -> None:
    assert canonical(url) == expected
    assert canonical(url, BASE) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.example/?utm_source=x&UTM_Medium=y&id=3", "http://a.example/?id=3"),
        ("http://a.example/?utm%5Fsource=x", "http://a.example/"),
        ("http://a.example/?gclid=1&fbclid=2&msclkid=3&mc_cid=4", "http://a.example/"),
        ("http://a.example/?ref=home&source=x&cid=1", "http://a.example/?cid=1&ref=home&source=x"),
        ("http://a.example/?PHPSESSID=ab12&t=4", "http://a.example/?t=4"),
        ("http://a.example/b;jsessionid=1A!2?t=4", "http://a.example/b?t=4"),
        ("http://a.example/b;JSESSIONID=1A/c;v=2", "http://a.example/b/c;v=2"),
        ("http://a.example/a/.;jsessionid=1/b", "http://a.example/a/b"),
        *(
            (same, same)
            for name in ("sid", "session_id", "sessid", "cfid", "cftoken", "pk_cid", "hsa_net")
            for same in [f"http://a.example/?{name}=0123456789abcdef0123456789abcdef"]
        ),
    ],
)
def test_drops_tracking_and_session_ids(url: str, expected: str) -> None:
    assert canonical(url) == expected


def test_drops_what_the_user_adds() -> None:
    mine = Canonicaliser(["Ref", "x_*", "*"])
    assert mine("http://a.example/?ref=1&x_y=2&X_=3&refs=4") == "http://a.example/?refs=4"


@pytest.mark.parametrize(
    ("published", "sent"),
    [
        ("http://a.example/?b=2&a=1&utm_source=x", "http://a.example/?b=2&a=1&utm_source=x"),
        ("http://a.example/?x=2&x=1&&=", "http://a.example/?x=2&x=1&&="),
        ("http://a.example/?", "http://a.example/?"),
        ("http://a.example/%7euser/%c3%A4?q=a+b%20c", "http://a.example/%7euser/%c3%A4?q=a+b%20c"),
        ("http://a.example/b;jsessionid=1A?t=4#top", "http://a.example/b;jsessionid=1A?t=4"),
        ("http://u:p@A.example.:80/b/./../c?./..#./", "http://a.example/c?./.."),
    ],
)
def test_what_was_published_is_sent(published: str, sent: str) -> None:
    assert sent_url(published) == sent_url(sent) == sent


def test_fragments_that_name_pages_are_kept_if_wanted() -> None:
    for route in ("#/cart", "#!cart?b=2&a=%7e"):
        url = "http://a.example/?b=%7e&a" + route
        assert sent_url(url) == "http://a.example/?b=%7e&a"
        assert sent_url(url, routes=True) == url
        assert Canonicaliser()(url) == "http://a.example/?a&b=~" + route
        assert redirect_url("/login", url, routes=True) == "http://a.example/login" + route
        assert redirect_url("/login#/x", url, routes=True) == "http://a.example/login#/x"
        assert redirect_url("/login", url) == "http://a.example/login"
    assert sent_url("http://a.example/#top", routes=True) == "http://a.example/"


@pytest.mark.parametrize(
    ("header", "url"),
    [
        (b"/caf\xe9?q=\xe9", "http://a.example/caf%E9?q=%E9"),
        ("/café?q=é".encode(), "http://a.example/caf%C3%A9?q=%C3%A9"),
        (b"/a b|c", "http://a.example/a%20b|c"),
        (b"?b=2&a=1", "http://a.example/dir/x?b=2&a=1"),
    ],
)
def test_a_redirect_is_followed_as_given(header: bytes, url: str) -> None:
    location = header.decode("utf-8", "surrogateescape")  # as HTTP clients read headers
    assert redirect_url(location, "http://a.example/dir/x?y") == url


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "gopher://a.example/", "ftp://a.example/", "ws://a.example/"),
        *("javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\nscript:alert(1)", "data:text/html,x"),
        *("mailto:me@a.example", "tel:+1", "about:blank", "blob:https://a.example/1", "httpx://a.example/"),
        *("http://", "http://./", "http://a.example../", "http://a..:81/", "http://a b/", "http://a:99999/"),
        *("http://[::1", "http://a.example:port/"),
    ],
)
def test_case_16_refuses_what_cannot_be_crawled(url: str) -> None:
    assert canonical(url) is None
    assert canonical(url, BASE) is None


def test_relative_without_a_base_is_nothing() -> None:
    assert canonical("page.html") is None
    assert canonical("/x", "not a url") is None
    assert canonical("/x", "data:,") is None


def test_lone_surrogates_are_replaced() -> None:
    assert canonical("http://a.example/\ud800?q=\udfff") == "http://a.example/%EF%BF%BD?q=%EF%BF%BD"
    assert canonical("/x", "http://a.example/\ud800") == "http://a.example/x"
    assert canonical("http://\ud800/") is None


pieces = st.sampled_from(
    [
        *("%", "%2", "%25", "%2e", "%2F", "%34", "%41", "%7e", "%c3", "%E4", "4", "1", "a", "B", "."),
        *(
            "..",
            "/",
            "//",
            "\\",
            "?",
            "&",
            "=",
            ";",
            "#",
            "@",
            ":",
            "[",
            "]",
            " ",
            "\t",
            "ä",
            "\ud800",
            "\x00",
        ),
        *(";jsessionid=", ";jses", "sionid=", "utm_", "sid=", "0123456789abcdef" * 2, "|", "'", "+", "~"),
    ]
)
urls = st.builds(
    lambda start, rest: start + "".join(rest),
    st.sampled_from(
        ["http://a.example/", "https://A.example.:443", "http://u:p@1.2.3/", "/", "", "?", "http:"]
    ),
    st.lists(pieces, max_size=12),
)


@given(urls | st.text())
@example("http://a.example/%%34%31")
@example("http://a.example/x/.;jsessionid=%2e/.")
@example("http://0x7f.1../")
def test_idempotent_and_never_raises(url: str) -> None:
    once = canonical(url, BASE)
    if once is not None:
        assert canonical(once) == once
        assert normalize_url(once) == once
        assert "#" not in once
        assert "@" not in once.split("/")[2]
        assert once.isascii()


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("123")), min_size=1).flatmap(st.permutations)
)
def test_the_order_of_parameters_matters_for_equal_names_only(pairs: list[tuple[str, str]]) -> None:
    def url(of: list[tuple[str, str]]) -> str:
        return "http://a.example/?" + "&".join(f"{name}={value}" for name, value in of)

    by_name = sorted(pairs, key=itemgetter(0))  # stable
    assert canonical(url(pairs)) == canonical(url(by_name)) == url(by_name)


@given(urls | st.text())
def test_what_is_sent_is_what_a_browser_sends(url: str) -> None:
    """Nothing but fragment, userinfo and the dot after the host is taken from what the parser makes of it."""
    sent = sent_url(url, BASE)
    try:
        href = join_url(BASE, url)
    except ValueError:
        return
    if sent is not None:
        assert sent.split("/", 3)[3] == href.partition("#")[0].split("/", 3)[3]
        assert sent_url(sent) == sent
