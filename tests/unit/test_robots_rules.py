"""Reading robots.txt and asking it, against RFC 9309, Google's published rules, and Protego as a second opinion."""

from __future__ import annotations

import re
import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from protego import Protego

from shoal.fetch.robots_fetch import (
    MAX_BYTES,
    AnyHost,
    RobotsRecord,
    RobotsVerdict,
    agent_of,
    fetch_robots,
    rules_record,
)
from shoal.fetch.robots_rules import (
    MAX_PATTERN,
    MAX_RULES,
    MAX_RULES_TEXT,
    MAX_SITEMAP_TEXT,
    MAX_SITEMAPS,
    MAX_WILDCARD_TEXT,
    Matcher,
    product_token,
    read,
)
from shoal.fetch.transport import FetchRequest
from shoal.model import Response

AGENT = "Shoal/0.1 (+https://shoal.example/)"
SITE = "https://a.example"


def robots(text: str, agent: str = AGENT) -> RobotsRecord:
    return rules_record(text, agent_of(agent), 0.0)


def allowed(text: str, path: str, agent: str = AGENT) -> bool:
    return robots(text, agent).allows(SITE + path)


@pytest.mark.parametrize(
    ("agent", "token"),
    [
        (AGENT, "Shoal"),
        ("shoal", "shoal"),
        ("my-bot_2/3", "my-bot_2"),
        ("Mozilla/5.0 (compatible; FooBot/2.1; +http://foo.example)", "FooBot"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla"),
        ("", "*"),
        ("(nothing)", "*"),
    ],
)
def test_product_token(agent: str, token: str) -> None:
    assert product_token(agent) == token


# -- which group


def test_the_own_group_replaces_the_general_one() -> None:
    rules = robots("User-agent: *\nDisallow: /\n\nUser-agent: SHOAL\nDisallow: /private\nCrawl-delay: 2.5\n")
    assert rules.allows(f"{SITE}/open")
    assert not rules.allows(f"{SITE}/private/x")
    assert rules.delay == 2.5


def test_groups_of_others_do_not_matter() -> None:
    rules = robots("User-agent: Mozilla\nUser-agent: otherbot\nDisallow: /\n")
    assert rules.allows(f"{SITE}/x")
    assert rules.delay is None


@pytest.mark.parametrize(
    "name", ["shoal", "SHOAL", "Shoal/0.1", "Shoal (every version)", "shoal*", " Shoal  # us"]
)
def test_names_that_mean_us(name: str) -> None:
    assert not allowed(f"User-agent: {name}\nDisallow: /\n", "/x")


@pytest.mark.parametrize("name", ["Shoalbot", "Shoal-News", "sho", "my shoal", "(Shoal)", "", "*oal"])
def test_names_that_do_not(name: str) -> None:
    assert allowed(f"User-agent: {name}\nDisallow: /\n", "/x")


def test_groups_of_the_same_agent_are_one() -> None:
    """RFC 9309, 2.2.1: "If there is more than one group matching the user-agent, the groups MUST be combined"."""
    text = (
        "User-agent: shoal\nDisallow: /a\n\nUser-agent: *\nDisallow: /\n\nUser-agent: shoal\nDisallow: /b\n"
    )
    assert [allowed(text, path) for path in ("/a", "/b", "/c")] == [False, False, True]


def test_an_empty_own_group_allows_all() -> None:
    assert allowed("User-agent: *\nDisallow: /\n\nUser-agent: shoal\n", "/x")
    assert allowed("User-agent: *\nDisallow: /\n\nUser-agent: shoal\nDisallow:\n", "/x")


def test_several_agents_share_a_group() -> None:
    text = "User-agent: other\n\n# and\nUser-agent: shoal\nUser-agent: third\nDisallow: /x\n"
    assert not allowed(text, "/x")


@pytest.mark.parametrize("line", ["Sitemap: /s.xml", "Noindex: /x", "Crawl-delay: 3", "# words", "junk"])
def test_other_lines_end_no_group(line: str) -> None:
    """RFC 9309, 2.2.4: other records "MUST NOT interfere with the parsing of explicitly defined records"."""
    assert not allowed(f"User-agent: shoal\n{line}\nUser-agent: other\nDisallow: /x\n", "/x")
    assert not allowed(f"User-agent: shoal\nDisallow: /y\n{line}\nDisallow: /x\n", "/x")


def test_a_delay_is_for_those_named_before_it() -> None:
    text = "User-agent: other\nCrawl-delay: 9\nUser-agent: shoal\nDisallow: /x\n"
    assert robots(text).delay is None
    assert robots(text, "other").delay == 9


def test_rules_before_any_agent_are_nobodys() -> None:
    assert allowed("Disallow: /\nUser-agent: *\nDisallow: /x\n", "/y")


@pytest.mark.parametrize(
    "line",
    ["Disalow: /x", "dissallow : /x", "DISALLOW:/x", "\tDisallow:\t/x\t# why", "Disallow /x", "disallow:/x"],
)
def test_spellings_that_google_takes(line: str) -> None:
    assert not allowed(f"useragent: *\n{line}\n", "/x")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\r"])
def test_ends_of_lines(end: str) -> None:
    assert not allowed(end.join(("User-agent: *", "Disallow: /x", "")), "/x")


# -- which rule

FISH = [
    "/fish",
    "/fish.html",
    "/fish/salmon.html",
    "/fishheads",
    "/fishheads/yummy.html",
    "/fish.php?id=anything",
]
NO_FISH = ["/Fish.asp", "/catfish", "/?id=fish", "/desert/fish"]


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [  # after the table "URL matching based on path values" in Google's documentation
        ("/", ["/", "/x", "/?q"], []),
        ("/*", ["/", "/x"], []),
        ("/$", ["/"], ["/x", "/?q"]),
        ("/fish", FISH, NO_FISH),
        ("/fish*", FISH, NO_FISH),
        ("/fish/", ["/fish/", "/fish/?id=anything", "/fish/salmon.htm"], ["/fish", "/fish.html", "/Fish/Salmon.asp"]),
        ("/*.php", ["/index.php", "/filename.php", "/folder/any.php.file.html", "/f.php/"], ["/", "/windows.PHP"]),
        ("/*.php$", ["/filename.php", "/folder/filename.php"], ["/filename.php?parameters", "/filename.php5"]),
        ("/fish*.php", ["/fish.php", "/fishheads/catfish.php?parameters"], ["/Fish.PHP"]),
    ],
)  # fmt: skip
def test_patterns(pattern: str, matching: list[str], others: list[str]) -> None:
    rules = robots(f"User-agent: *\nDisallow: {pattern}\n")
    assert [path for path in matching if rules.allows(SITE + path)] == []
    assert [path for path in others if not rules.allows(SITE + path)] == []


@pytest.mark.parametrize(
    ("rules", "path", "allows"),
    [  # after "Order of precedence for rules" in Google's documentation
        ("Allow: /p\nDisallow: /", "/page", True),
        ("Allow: /folder\nDisallow: /folder", "/folder/page", True),
        ("Allow: /page\nDisallow: /*.htm", "/page.htm", False),
        ("Allow: /page\nDisallow: /*.ph", "/page.php5", True),
        ("Allow: /$\nDisallow: /", "/", True),
        ("Allow: /$\nDisallow: /", "/page.htm", False),
        # RFC 9309, 5.2: the longest match
        ("Allow: /example/page/\nDisallow: /example/page/disallowed.gif", "/example/page/", True),
        (
            "Allow: /example/page/\nDisallow: /example/page/disallowed.gif",
            "/example/page/disallowed.gif",
            False,
        ),
        ("Disallow: /a\nAllow: /a/b\nDisallow: /a/b$", "/a/b", False),
        ("Disallow: /*/b$\nAllow: /a/b", "/a/b", False),
    ],
)
def test_precedence(rules: str, path: str, allows: bool) -> None:
    assert allowed(f"User-agent: *\n{rules}\n", path) is allows
    turned = "\n".join(reversed(rules.split("\n")))
    assert allowed(f"User-agent: *\n{turned}\n", path) is allows, "the order does not matter"


@pytest.mark.parametrize(
    ("pattern", "path"),
    [  # the table of RFC 9309, 2.2.2, and 2.2.3 on special characters
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar"),
        ("/foo/bar/U+E38384", "/foo/bar/U+E38384"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/ツ"),
        ("/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A"),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"),
        ("/path/foo-%24", "/path/foo-$"),
        ("/a$b", "/a$b"),
        ("/a b", "/a%20b"),
        ("/a|b", "/a%7Cb"),
        ("/100%", "/100%"),
    ],
)
def test_one_spelling_of_every_character(pattern: str, path: str) -> None:
    assert not allowed(f"User-agent: *\nDisallow: {pattern}\n", path)
    assert not allowed(f"User-agent: *\nDisallow: {pattern}$\n", path)


def test_an_escaped_reserved_character_is_another() -> None:
    assert allowed("User-agent: *\nDisallow: /a%2Fb\n", "/a/b")
    assert allowed("User-agent: *\nDisallow: /a*b$\n", "/a*c")


def test_rules_without_a_slash_match_nothing() -> None:
    assert allowed("User-agent: *\nDisallow: private\nDisallow: https://a.example/private\n", "/private")


def test_sitemaps() -> None:
    text = "Sitemap: https://a.example/s.xml\nUser-agent: other\nsitemap: /t.xml # new\nsitemap:\n"
    assert robots(text).sitemaps == ("https://a.example/s.xml", "/t.xml")


def test_robots_txt_itself_is_always_allowed() -> None:
    assert allowed("User-agent: *\nDisallow: /\n", "/robots.txt")
    assert RobotsRecord("disallow", 0.0, 1.0).allows(f"{SITE}/robots.txt")


@pytest.mark.parametrize(("verdict", "allows"), [("allow", True), ("disallow", False)])
def test_records_without_rules(verdict: RobotsVerdict, allows: bool) -> None:
    rules = RobotsRecord(verdict, 0.0, 1.0)
    assert rules.allows(f"{SITE}/x") is allows
    assert rules.delay is None
    assert rules.sitemaps == ()


@pytest.mark.parametrize("delay", ["-1", "nan", "inf", "soon", "", "1e999"])
def test_crawl_delays_that_are_none(delay: str) -> None:
    assert robots(f"User-agent: *\nCrawl-delay: {delay}\n").delay is None


@given(st.text(), st.text())
def test_junk_never_raises(text: str, path: str) -> None:
    for rules in (robots("User-agent: *\nDisallow: " + text), robots(text)):
        rules.allows(f"{SITE}/{path}")


async def test_a_redirect_to_half_a_host_leads_nowhere() -> None:
    class Redirecting:
        async def fetch(self, request: FetchRequest) -> Response:
            return Response(request.url, 302, {"Location": "//[]@"}, b"")

        async def close(self) -> None: ...

    async def pause() -> None: ...

    record = await fetch_robots(
        Redirecting(), "https://a.example", agent="shoal", now=0.0, pause=pause, other_hosts=AnyHost()
    )
    assert (record.verdict, record.reason) == ("allow", "a redirect to nowhere")


# -- second opinion

_pieces = st.sampled_from(["/", "a", "b", "ab", "aa", ".", "=", "é", "%C3%A9", " "])
_paths = st.lists(st.one_of(_pieces, st.sampled_from(["%61", "?"])), max_size=6).map(
    lambda pieces: "/" + "".join(pieces).strip()
)
_patterns = st.tuples(
    st.lists(st.one_of(_pieces, st.just("*")), max_size=6).map(lambda pieces: "/" + "".join(pieces).strip()),
    st.sampled_from(["", "", "$"]),
).map("".join)
_rules = st.tuples(st.sampled_from(["Allow", "Disallow"]), _patterns).map(": ".join)
_groups = st.tuples(
    st.lists(st.sampled_from(["*", "shoal", "Shoal", "other"]), min_size=1, max_size=3),
    st.lists(_rules, min_size=1, max_size=4),
)


@given(st.lists(_groups, max_size=4), st.lists(_paths, min_size=1, max_size=5))
@example([(["*"], ["Disallow: /*a*a*b", "Allow: /aa"])], ["/aab", "/aaa"])
def test_protego_agrees(groups: list[tuple[list[str], list[str]]], paths: list[str]) -> None:
    """On random files made of what both read alike. Where they do not, on purpose:
    - Protego lets "Allow: /index.html" also allow "/";
    - Protego decodes %3D and the like, which the RFC says are not the same as "=";
    - Protego takes Crawl-delay and unknown lines for the end of a list of agents;
    - Protego ends lines at characters that the RFC does not (form feed, U+2028);
    - Protego reads a group for "shoal" as one for "shoal-news", too;
    - Protego takes a "$" inside a rule for itself and, besides, for its escaped form, as two rules;
    - Protego measures "%41" in a rule as it is written, Shoal by its plain spelling, "A";
    - Protego measures "?" in a rule as "%3F", so that "/?" is longer than "/*"; Google's parser takes both as two."""
    text = ""
    for names, rules in groups:
        text += (
            "".join(f"User-agent: {name}\n" for name in names) + "".join(f"{rule}\n" for rule in rules) + "\n"
        )
    theirs, ours = Protego.parse(text), robots(text)
    for path in paths:
        assert ours.allows(SITE + path) == theirs.can_fetch(SITE + path, "Shoal"), (text, path)


_glob = st.lists(st.sampled_from("ab*"), max_size=10).map("".join)


@given(_glob, st.booleans(), st.text("ab", max_size=14))
def test_wildcards_match_as_a_regular_expression_would(glob: str, whole: bool, path: str) -> None:
    expected = re.match(re.escape("/" + glob).replace(r"\*", ".*") + ("$" if whole else ""), "/" + path)
    assert Matcher(f"-/{glob}{'$' * whole}").allows(f"{SITE}/{path}") is (expected is None)


# -- bounds: whatever the text is


def full(*lines: str) -> str:
    """A robots.txt of the largest size, of lines that are all different ("%d" is their number)."""
    text, number = ["User-agent: *\n"], 0
    room = MAX_BYTES - len(text[0])
    while room > 0:
        for line in lines:
            written = line.replace("%d", str(number)) + "\n"
            text.append(written)
            room -= len(written.encode())
        number += 1
    return "".join(text)


_HALF = MAX_BYTES // 2
HOSTILE: dict[str, Callable[[], str]] = {
    "many agents, many rules": lambda: full("User-agent: a%d")[:_HALF] + "\n" + full("Disallow: /%d")[14:_HALF],
    "many groups": lambda: full("User-agent: *", "Disallow: /%d"),
    "many rules": lambda: full("Disallow: /%d"),
    "wildcards": lambda: full("Disallow: /*%d*a*a*b"),
    "long patterns": lambda: full("Disallow: /%d" + "a" * 30_000, "Allow: /%d" + "*a" * 10_000),
    "escapes": lambda: full("Disallow: /%d" + "%41" * 600),
    "broken escapes": lambda: full("Disallow: /%d" + "%g" * 900),
    "characters": lambda: full("Disallow: /%d" + "\U0001f41f" * 400),
    "empty lines": lambda: "\n" * MAX_BYTES,
    "short lines": lambda: "a:\n" * (MAX_BYTES // 3),
    "lines of words": lambda: "allow a\n" * (MAX_BYTES // 8),
    "delays": lambda: full("Crawl-delay: %d"),
    "sitemaps": lambda: full("Sitemap: https://a.example/%d"),
    "one line": lambda: "User-agent: " + "*" * MAX_BYTES,
}  # fmt: skip


def seconds(text: str) -> float:
    """Of CPU, the least of three."""
    taken = []
    for _ in range(3):
        begin = time.process_time()
        read(text, "shoal")
        taken.append(time.process_time() - begin)
    return min(taken)


@pytest.mark.parametrize("name", HOSTILE)
def test_every_text_is_read_in_a_moment_and_little_is_kept(name: str) -> None:
    """500 KiB take 10 to 40 ms; a mistake takes seconds."""
    text = HOSTILE[name]()
    assert seconds(text) < 0.25
    found = read(text, "shoal")
    rules = found.rules.split("\n")
    assert len(rules) <= MAX_RULES
    assert len(found.rules) <= MAX_RULES_TEXT
    assert sum(len(rule) for rule in rules if "*" in rule) <= MAX_WILDCARD_TEXT + len(rules)
    assert max(map(len, rules)) <= MAX_PATTERN + 1
    assert len(found.sitemaps) <= MAX_SITEMAPS
    assert sum(map(len, found.sitemaps)) <= MAX_SITEMAP_TEXT


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_twice_the_text_takes_twice_the_time(name: str) -> None:
    text = HOSTILE[name]()[: MAX_BYTES // 4]
    small, large = seconds(text), seconds(text * 4)
    assert large < 10 * small + 0.03


def test_memory_is_bounded_while_reading() -> None:
    text = HOSTILE["many agents, many rules"]()
    tracemalloc.start()
    try:
        read(text, "shoal")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 * MAX_BYTES  # the lines of the text; it was 1 GB for 80 KB


@pytest.mark.parametrize(
    "rules",
    [
        "Disallow: /*a*a*a*a*a*a*a*b",
        "Disallow: /" + "*a" * 900 + "*b",
        "\n".join(f"Disallow: /*{'a' * n}b{'a' * n}" for n in range(1, 140)),
        "\n".join(f"Disallow: /*a{n}*b" for n in range(2_000)),
        "\n".join(f"Disallow: /{'a' * n}b" for n in range(440)),
    ],
)
def test_no_rule_takes_long_on_a_long_url(rules: str) -> None:
    matcher = Matcher(read(f"User-agent: *\n{rules}\n", "shoal").rules)
    url = f"{SITE}/{'a' * 1980}"
    begin = time.process_time()
    for _ in range(5):
        assert matcher.allows(url)
    assert (time.process_time() - begin) / 5 < 0.1


def test_five_thousand_rules_and_two_thousand_links() -> None:
    rules = [f"Disallow: /dir{n}/page" for n in range(4_000)] + [
        f"Disallow: /*{n}.pdf$" for n in range(1_000)
    ]
    matcher = Matcher(read("User-agent: *\n" + "\n".join(rules), "shoal").rules)
    begin = time.process_time()
    for n in range(2_000):
        assert matcher.allows(f"{SITE}/some/ordinary/link-{n}.html?x={n}")
    assert time.process_time() - begin < 2  # 0.16 s


def test_what_lies_beyond_the_caps_is_said() -> None:
    record = rules_record(
        "User-agent: *\n" + "\n".join(f"Disallow: /{n}/" for n in range(6_000)), "shoal", 0.0
    )
    assert "at most 5,000" in record.reason
    assert not record.allows(f"{SITE}/4999/")
    assert record.allows(f"{SITE}/5000/")


def test_a_long_disallow_forbids_more_and_a_long_allow_nothing() -> None:
    long = "a" * (MAX_PATTERN + 100)
    text = f"User-agent: *\nDisallow: /{long}\nDisallow: /b\nAllow: /b{long}\n"
    assert not allowed(text, f"/{long[:-50]}")
    assert not allowed(text, f"/b{long}")
