"""What robots.txt means by RFC 9309, by Google's parser, by Protego and by us: case by case, and why where we differ.

The cases are those that Google's own parser is tested with, by meaning, and what RFC 9309 adds. For each URL the
verdict is ours; the RFC, Google and Protego agree with it unless `rfc`, `google` or `protego` names the reason.
"silent": it says nothing about this. Protego is asked in the test; a port of Google's parser was, when the table was
written.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from protego import Protego

from shoal.fetch.robots_fetch import MAX_BYTES, AnyHost, RobotsRecord, agent_of, fetch_robots
from shoal.fetch.transport import FetchRequest
from shoal.model import Response

SITE = "http://foo.bar"
AGENT = "FooBot"
A, D = True, False  # allowed, disallowed


@dataclass(frozen=True)
class Case:
    name: str
    text: str | bytes
    verdicts: dict[str, bool]  # path to what we say
    agent: str = AGENT
    rfc: str = ""
    google: str = ""
    protego: str = ""

    @property
    def body(self) -> bytes:
        return self.text if isinstance(self.text, bytes) else self.text.encode()


def group(rules: str, agent: str = AGENT) -> str:
    return f"User-agent: {agent}\n{rules}\n"


SILENT = "silent"
NAME = "Google and the RFC match the whole name, Protego any name that begins with it"

LINES = [
    Case("nothing", "", {"/": A, "/x": A}),
    Case("no agent", "Disallow: /\n", {"/x": A}),
    Case("a name and a colon", "user-agent: FooBot\ndisallow: /\n", {"/x/y": D}),
    Case("no colon but a space", "user-agent FooBot\ndisallow /\n", {"/x/y": D}, rfc=SILENT),
    Case("neither", "user-agentFooBot\ndisallow/\n", {"/x/y": A}),
    Case("a junk line is passed over", "foo: FooBot\nbar: /\n", {"/x/y": A}),
    Case("spaces and tabs", " \tUser-Agent \t: \tFooBot \t\n Disallow\t:\t/x \n", {"/x": D, "/y": A}),
    Case("a comment after a rule", group("Disallow: /x # but not /y"), {"/x": D, "/y": A}),
    Case("a rule in a comment", group("# Disallow: /x"), {"/x": A}),
    Case("a comment in a name", "User-agent: FooBot#x\nDisallow: /x\n", {"/x": D}),
    Case(
        "names of lines in any case", "USER-AGENT: FooBot\nDISALLOW: /x\naLLoW: /x/y\n", {"/x": D, "/x/y": A}
    ),
    Case("CR", "User-agent: FooBot\rDisallow: /x\r", {"/x": D, "/y": A}),
    Case("CRLF", "User-agent: FooBot\r\nDisallow: /x\r\n", {"/x": D, "/y": A}),
    Case("LF CR", "User-agent: FooBot\n\rDisallow: /x\n\r", {"/x": D, "/y": A}),
    Case("no line end at the end", "User-agent: FooBot\nDisallow: /x", {"/x": D, "/y": A}),
    Case("a form feed ends no line", "User-agent: FooBot\nDisallow: /x\fAllow: /x\n", {"/x": A}),
    Case("a BOM", b"\xef\xbb\xbfUser-agent: FooBot\nDisallow: /x\n", {"/x": D}),
    Case(
        "part of a BOM",
        b"\xef\xbbUser-agent: FooBot\nDisallow: /x\n",
        {"/x": D},
        rfc=SILENT,
        protego="reads text, of which this is a part",
    ),
    Case(
        "a BOM that is not at the start",
        b"User-agent: FooBot\n\xef\xbb\xbfDisallow: /x\nDisallow: /y\n",
        {"/x": A, "/y": D},
        rfc=SILENT,
    ),
    Case("NUL", b"User-agent: FooBot\nDisallow: /x\0y\nDisallow: /z\n", {"/z": D}),
    Case(
        "bytes that are no UTF-8", b"User-agent: FooBot\nDisallow: /\xff\nDisallow: /z\n", {"/z": D, "/y": A}
    ),
    Case("useragent", "useragent: FooBot\nDisallow: /x\n", {"/x": D}, rfc=SILENT),
    Case("user agent", "user agent: FooBot\nDisallow: /x\n", {"/x": D}, rfc=SILENT),
    *(
        Case(typo, group(f"{typo}: /x"), {"/x": D}, rfc=SILENT)
        for typo in ("dissallow", "dissalow", "disalow", "diasllow", "disallaw")
    ),
    Case("a typo that Google does not know", group("dissssallow: /x"), {"/x": A}, rfc=SILENT),
]

GROUPED = (
    "user-agent: FooBot\ndisallow: /\nallow: /x/\n\nuser-agent: BarBot\ndisallow: /\nallow: /y/\n\n\n"
    "allow: /w/\nuser-agent: BazBot\n\nuser-agent: FooBot\nallow: /z/\ndisallow: /\n"
)
GROUPS = [
    Case("groups of one agent are one", GROUPED, {"/x/b": A, "/z/d": A, "/y/c": D, "/w/a": D}),
    Case("a blank line ends no group", GROUPED, {"/y/c": A, "/w/a": A, "/z/d": D, "/x/b": D}, "BarBot"),
    Case(
        "agents share the group that follows", GROUPED, {"/z/d": A, "/x/b": D, "/w/a": D, "/y/c": D}, "BazBot"
    ),
    Case(
        "Sitemap ends no list of agents",
        "User-agent: BarBot\nSitemap: https://foo.bar/s\nUser-agent: *\nDisallow: /\n",
        {"/x": D},
    ),
    Case(
        "… for the one before it",
        "User-agent: BarBot\nSitemap: https://foo.bar/s\nUser-agent: *\nDisallow: /\n",
        {"/x": D},
        "BarBot",
    ),
    Case(
        "an unknown line ends none",
        "User-agent: BarBot\nInvalid-Unknown-Line: unknown\nUser-agent: *\nDisallow: /\n",
        {"/x": D},
        "BarBot",
        protego="takes it for the end of the agents, and BarBot for one without rules",
    ),
    Case(
        "Crawl-delay ends none",
        "User-agent: BarBot\nCrawl-delay: 1\nUser-agent: *\nDisallow: /\n",
        {"/x": D},
        "BarBot",
        protego="takes it for a rule, and BarBot for one without others",
    ),
    Case("an agent of the general group", "User-agent: *\nDisallow: /x\n", {"/x": D, "/y": A}),
    Case(
        "the own group replaces it", "user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n", {"/x": D}
    ),
    Case(
        "… wherever it stands",
        "user-agent: FooBot\nallow: /\nuser-agent: BarBot\ndisallow: /\nuser-agent: *\ndisallow: /\n",
        {"/x": A},
    ),
    Case(
        "nobody but others",
        "user-agent: FooBot\nallow: /\nuser-agent: BarBot\ndisallow: /\n",
        {"/x": A},
        "QuxBot",
    ),
    Case("a group without rules", "User-agent: *\nDisallow: /\n\nUser-agent: FooBot\n", {"/x": A}),
    Case("an empty Disallow", "User-agent: *\nDisallow: /\n\nUser-agent: FooBot\nDisallow:\n", {"/x": A}),
    Case("an empty Allow", group("Disallow: /\nAllow:"), {"/x": D}),
    Case("names in any case", "User-agent: FOOBOT\nDisallow: /x\n", {"/x": D}),
    Case("a longer name is another", "User-agent: FooBotNews\nDisallow: /x\n", {"/x": A}),
    Case("a shorter name is another", "User-agent: Foo\nDisallow: /x\n", {"/x": A}, protego=NAME),
    Case("… by a hyphen, too", "User-agent: Foo\nDisallow: /x\n", {"/x": A}, "Foo-Bot", protego=NAME),
    Case(
        "a name with a version",
        "User-agent: FooBot/1.0\nDisallow: /x\n",
        {"/x": D},
        rfc=SILENT,
        protego="compares the whole line",
    ),
    Case(
        "a name up to its first space",
        "User-agent: FooBot Bar\nDisallow: /x\n",
        {"/x": D},
        rfc=SILENT,
        protego="compares the whole line",
    ),
    Case(
        "a star and more",
        "User-agent: * baz\nDisallow: /x\n",
        {"/x": D},
        rfc=SILENT,
        protego="compares the whole line",
    ),
    Case("a star that is part of a name", "User-agent: *Bot\nDisallow: /x\n", {"/x": A}, rfc=SILENT),
    Case("an empty name", "User-agent:\nDisallow: /x\n", {"/x": A}, rfc=SILENT),
    Case("rules before any agent", "Disallow: /x\nUser-agent: FooBot\nDisallow: /y\n", {"/x": A, "/y": D}),
]

MATCHES = [
    Case("rules have capitals", group("disallow: /X/"), {"/x/y": A, "/X/y": D}),
    Case("the longest counts", group("disallow: /x/page.html\nallow: /x/"), {"/x/page.html": D, "/x/": A}),
    Case(
        "… whichever it is",
        group("allow: /x/page.html\ndisallow: /x/"),
        {"/x/page.html": A, "/x/": D, "/y": A},
    ),
    Case("… with a star", group("disallow: /x/page\nallow: /x/p*"), {"/x/page": D}),
    Case("of two as long, Allow", group("disallow: /x/page.html\nallow: /x/page.html"), {"/x/page.html": A}),
    Case("… both empty", group("disallow:\nallow:"), {"/x": A}),
    Case("… both all", group("disallow: /\nallow: /"), {"/x": A}),
    Case("… with stars", group("allow: /page\ndisallow: /*.html"), {"/page.html": D, "/page": A}),
    Case("… of more stars", group("allow: /x/page.\ndisallow: /*.html"), {"/x/page.html": A, "/x/y.html": D}),
    Case("a path is not its directory", group("disallow: /x\nallow: /x/"), {"/x": D, "/x/": A}),
    Case("the root alone", group("allow: /$\ndisallow: /"), {"/": A, "/x": D}),
    Case("the root and a query", group("disallow: /$"), {"/": D, "/?a": A}),
    Case(
        "prefix",
        group("disallow: /fish"),
        {
            "/fish": D,
            "/fish.html": D,
            "/fish/x": D,
            "/fishheads": D,
            "/fish.php?id=1": D,
            "/Fish": A,
            "/catfish": A,
            "/?id=fish": A,
        },
    ),
    Case(
        "a star at the end",
        group("disallow: /fish*"),
        {"/fish": D, "/fishheads/yummy.html": D, "/catfish": A},
    ),
    Case(
        "a directory",
        group("disallow: /fish/"),
        {"/fish/": D, "/fish/salmon": D, "/fish/?id=1": D, "/fish": A, "/fish.html": A},
    ),
    Case(
        "a star",
        group("disallow: /*.php"),
        {
            "/index.php": D,
            "/f/any.php?x": D,
            "/f/any.php.html": D,
            "/php/": A,
            "/index?php": A,
            "/windows.PHP": A,
        },
    ),
    Case(
        "a star and an end",
        group("disallow: /*.php$"),
        {"/f.php": D, "/f/f.php": D, "/f.php?x": A, "/f.php/": A, "/f.php5": A, "/php/": A},
    ),
    Case(
        "a star within",
        group("disallow: /fish*.php"),
        {"/fish.php": D, "/fishheads/catfish.php?x": D, "/Fish.PHP": A},
    ),
    Case(
        "two stars",
        group("disallow: /foo/*/qux\nallow: /foo/*/qux/*y"),
        {"/foo/bar/qux": D, "/foo/qux": A, "/foo//qux": D, "/foo/a/qux/xy": A},
    ),
    Case("stars in a row", group("disallow: /a**b"), {"/axb": D, "/ab": D, "/a": A}),
    Case(
        "a star at the start",
        group("disallow: *.gif$"),
        {"/a.gif": D, "/a.gif?x": A},
        rfc="a path begins with a slash (2.2.2)",
    ),
    Case("a dollar within", group("disallow: /a$b"), {"/a": A, "/a$b": D, "/a$bc": D}),
    Case(
        "a dollar is literal in the URL",
        group("disallow: /a$"),
        {"/a": D, "/ab": A, "/a$": A},
        protego="takes the end for a dollar, too",
    ),
    Case(
        "a path without its slash", group("disallow: x"), {"/x": A}, rfc="a path begins with a slash (2.2.2)"
    ),
    Case("a whole URL", group("disallow: http://foo.bar/x"), {"/x": A}),
    Case(
        "/robots.txt itself",
        group("disallow: /"),
        {"/robots.txt": A, "/robots.txts": D},
        google="leaves that to whoever fetches it",
    ),
    Case("the query", group("disallow: /x?a"), {"/x?a=b": D, "/x": A, "/x?b": A}),
    Case("path parameters", group("disallow: /x;a"), {"/x;a=b": D, "/x": A}),
    Case(
        "index.html",
        group("allow: /x/index.html\ndisallow: /"),
        {"/x/index.html": A, "/x/": D, "/": D},
        google="takes Allow: /x/index.html for /x/, too. Nobody else knows that, and what is not allowed is forbidden",
        protego="takes Allow: /x/index.html for /x/, too, but not for / ",
    ),
]

ENCODED = [
    Case(
        "a URL in a query",
        group("disallow: /\nallow: /foo/bar?qux=taz&baz=http://foo.bar?tar&par"),
        {"/foo/bar?qux=taz&baz=http://foo.bar?tar&par": A},
    ),
    Case(
        "UTF-8, as it is",
        group("disallow: /\nallow: /foo/bar/ツ"),
        {"/foo/bar/%E3%83%84": A, "/foo/bar/ツ": A},
        google="matches URLs as they are: whoever asks has encoded them",
    ),
    Case(
        "UTF-8, encoded",
        group("disallow: /\nallow: /foo/bar/%E3%83%84"),
        {"/foo/bar/%E3%83%84": A, "/foo/bar/ツ": A},
        google="matches URLs as they are: whoever asks has encoded them",
    ),
    Case(
        "small letters in an escape",
        group("disallow: /foo/%e3%83%84"),
        {"/foo/%E3%83%84": D, "/foo/%e3%83%84": D},
        google="matches URLs as they are: whoever asks has put them into one spelling",
    ),
    Case(
        "an escape that need not be",
        group("disallow: /\nallow: /foo/bar/%62%61%7A"),
        {"/foo/bar/%62%61%7A": A, "/foo/bar/baz": A},
        google="decodes nothing. RFC 9309 (2.2.2) wants both to be the same",
    ),
    Case("a reserved character, encoded", group("disallow: /a%2Fb"), {"/a%2Fb": D, "/a/b": A}),
    Case(
        "a star, encoded",
        group("disallow: /a-%2A.html"),
        {"/a-%2A.html": D, "/a-x.html": A, "/a-*.html": D},
        google="matches URLs as they are",
    ),
    Case(
        "a dollar, encoded",
        group("disallow: /a%24"),
        {"/a%24": D, "/a": A, "/a$b": D},
        google="matches URLs as they are",
    ),
    Case(
        "a space",
        group("disallow: /a b"),
        {"/a%20b": D, "/a": A},
        google="leaves it as it is, and no URL has a space",
    ),
    Case("half an escape", group("disallow: /100%"), {"/100%": D, "/100": A}),
]

LONG = "/x/" + "a" * 1_000 + "/"
LENGTHS = [
    Case(
        "a rule of 2,000 characters",
        group(f"disallow: {LONG}{'b' * 900}"),
        {LONG + "b" * 900: D, LONG + "b" * 899: A},
    ),
    Case(
        "a line beyond every cap",
        group("disallow: /" + "a" * 20_000 + "\ndisallow: /z"),
        {"/" + "a" * 2_000: D, "/z": D, "/a": A},
        rfc=SILENT,
        google="cuts it at 16,663 bytes, we at 2,000 characters: no URL is longer by default",
        protego="has no cap",
    ),
    Case(
        "an Allow beyond every cap",
        group("disallow: /\nallow: /" + "a" * 20_000),
        {"/" + "a" * 2_000: D},
        rfc=SILENT,
    ),
    Case(
        "just within 500 KiB",
        b"User-agent: FooBot\n" + b"#" * (MAX_BYTES - 40) + b"\nDisallow: /x\n",
        {"/x": D},
    ),
    Case(
        "just beyond 500 KiB",
        b"User-agent: FooBot\n" + b"#" * (MAX_BYTES - 20) + b"\nDisallow: /x\n",
        {"/x": A},
        google="has no cap in its parser",
        protego="has no cap",
    ),
    Case(
        "cut within a rule",
        b"User-agent: FooBot\n" + b"#" * (MAX_BYTES - 32) + b"\nDisallow: /x\n",
        {"/": A, "/y": A},
    ),
]

CASES = [*LINES, *GROUPS, *MATCHES, *ENCODED, *LENGTHS]


class File:
    """A host whose robots.txt is known."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def fetch(self, request: FetchRequest) -> Response:
        return Response(request.url, 200, {}, self._body[: request.max_body])

    async def close(self) -> None: ...


async def ours(case: Case) -> RobotsRecord:
    async def pause() -> None: ...

    agent = agent_of(case.agent)
    return await fetch_robots(File(case.body), SITE, agent=agent, now=0.0, pause=pause, other_hosts=AnyHost())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_case(case: Case) -> None:
    robots = await ours(case)
    assert {path: robots.allows(SITE + path) for path in case.verdicts} == case.verdicts


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_protego_agrees_or_the_reason_is_written_down(case: Case) -> None:
    theirs = Protego.parse(case.body.decode("utf-8-sig", "replace"))
    agrees = all(
        theirs.can_fetch(SITE + path, case.agent) is verdict for path, verdict in case.verdicts.items()
    )
    assert agrees is not bool(case.protego)


# -- what neither the RFC nor Google's parser has: Protego is the only second opinion

DELAYS = [
    ("Crawl-delay: 2.5", 2.5, ""),
    ("crawl-delay:10 # seconds", 10.0, ""),
    ("Crawl-delay: 0", 0.0, ""),
    ("Crawl-delay: soon", None, ""),
    ("Crawl-delay:", None, ""),
    ("Disallow: /x\nCrawl-delay: 3", 3.0, ""),
    ("Crawl-delay: 1\nCrawl-delay: 3", 3.0, ""),
    ("Crawl-delay: 3\nCrawl-delay: 1", 3.0, "takes the last; we the longest"),
    ("Crawl-delay: -1", None, ""),
    ("Crawl-delay: inf", None, ""),
]


@pytest.mark.parametrize(("rules", "delay", "protego"), DELAYS)
async def test_crawl_delay(rules: str, delay: float | None, protego: str) -> None:
    text = group(rules)
    assert (await ours(Case("", text, {}))).delay == delay
    assert (Protego.parse(text).crawl_delay(AGENT) == delay) is not bool(protego)


async def test_sitemaps_belong_to_no_group() -> None:
    text = "Sitemap: http://foo.bar/1\nUser-agent: x\nDisallow: /\nSITEMAP : http://foo.bar/2 # new\n"
    text += "site-map: /3\nSitemap:\n"
    found = (await ours(Case("", text, {}))).sitemaps
    assert list(found) == ["http://foo.bar/1", "http://foo.bar/2", "/3"]
    assert set(Protego.parse(text).sitemaps) <= {*found, ""}
