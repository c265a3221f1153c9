"""Which answers are not the page, which only look like it, and what follows."""

from __future__ import annotations

import logging
import random
import re
import sys
import timeit
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from shoal.errors import SettingsError
from shoal.fetch.challenge import Challenge, Challenges, detect
from shoal.fetch.challenge.signatures import HEADERS, PHRASES, VENDORS, WIDGETS, readable
from shoal.model import Dead, Failure, Response, Retry, Task
from shoal.policy.outcomes import TABLE
from shoal.settings import Settings
from shoal.spider.rendering import Rendered

URL = "https://shop.example/p/1"
NOW = 1_750_000_000.0


def answer(
    body: str | bytes = b"", status: int = 200, url: str = URL, **headers: str | list[str]
) -> Response:
    named: CIMultiDict[str] = CIMultiDict()
    for name, values in {"Content_Type": "text/html; charset=utf-8", **headers}.items():
        for value in [values] if isinstance(values, str) else values:
            named.add(name.replace("_", "-"), value)
    body = body.encode() if isinstance(body, str) else body
    return Response(url, status, named, body, elapsed=0.2)


def page(title: str, content: str) -> str:
    return f"<!DOCTYPE html><html><head><title>{title}</title></head><body>{content}</body></html>"


WORDS = "Oak shelves, made to measure and delivered within two weeks to your door. " * 20
NAVIGATION = "".join(f'<li><a href="/c/{n}">Section {n}</a></li>' for n in range(30))
SITE = page("Shelves", f"<nav>{NAVIGATION}</nav><main><h1>Shelves</h1><p>{WORDS}</p>%s</main>")
ARTICLE = page("On shelves", f"<h1>On shelves</h1><p>{WORDS}</p>%s")

WALLS: dict[str, tuple[str, str, Response]] = {
    "cloudflare challenge": (
        "bot_wall",
        "cloudflare",
        answer(
            page(
                "One moment", "<noscript>Turn scripts on</noscript><script>window._cf_chl_opt={a:1};</script>"
            ),
            403,
            server="cloudflare",
        ),
    ),
    "cloudflare header": ("bot_wall", "cloudflare", answer("", 403, cf_mitigated="challenge")),
    "cloudflare block": (
        "bot_wall",
        "cloudflare",
        answer(page("Attention", f"<h1>Sorry, you have been blocked</h1><p>{WORDS}</p>"), 403),
    ),
    "datadome": (
        "captcha",
        "datadome",
        answer(page("shop.example", "<script src='https://ct.captcha-delivery.com/c.js'></script>"), 403),
    ),
    "datadome for programs": (
        "captcha",
        "datadome",
        answer('{"url":"https://geo.captcha-delivery.com/x"}', 403, Content_Type="application/json"),
    ),
    "datadome cookie": (
        "bot_wall",
        "datadome",
        answer(
            page("shop.example", "<script>go()</script>"),
            403,
            Set_Cookie=["session=1", "datadome=abc; Path=/"],
        ),
    ),
    "perimeterx": (
        "captcha",
        "perimeterx",
        answer(page("Hold on", '<div id="px-captcha"></div><p>Press and hold.</p>'), 403),
    ),
    "perimeterx with 200": (
        "captcha",
        "perimeterx",
        answer(page("Hold on", '<div id="px-captcha"></div><p>Press and hold.</p>')),
    ),
    "imperva with 200": (
        "bot_wall",
        "imperva",
        answer(page("", '<iframe src="/_Incapsula_Resource?x=1&incident_id=7-9">Incident 7-9</iframe>')),
    ),
    "imperva interruption": (
        "bot_wall",
        "imperva",
        answer(page("Pardon Our Interruption", "<p>Something made us think.</p>")),
    ),
    "akamai": (
        "bot_wall",
        "akamai",
        answer(page("Access Denied", "<h1>Access Denied</h1>Reference&#32;&#35;18&#46;abc"), 403),
    ),
    "akamai by its server": ("bot_wall", "akamai", answer("no", 403, Server="AkamaiGHost")),
    "kasada": ("bot_wall", "kasada", answer("<html><body></body></html>", 429, x_kpsdk_ct="00abc")),
    "aws challenge": ("bot_wall", "aws", answer("", 202, x_amzn_waf_action="challenge")),
    "aws captcha": ("captcha", "aws", answer("<html></html>", 405, x_amzn_waf_action="captcha")),
    "vercel": ("bot_wall", "vercel", answer(page("Vercel Security Checkpoint", "<p>Wait</p>"), 429)),
    "f5": (
        "bot_wall",
        "f5",
        answer(page("Rejected", "The requested URL was rejected. Please consult with your administrator.")),
    ),
    "sucuri": ("bot_wall", "sucuri", answer(page("Sucuri WebSite Firewall", "<p>Blocked</p>"), 403)),
    "anubis": (
        "bot_wall",
        "anubis",
        answer(page("Wait", '<script id="anubis_challenge" type="application/json">{}</script>')),
    ),
    "amazon": (
        "captcha",
        "amazon",
        answer(page("Shop", '<form action="/errors/validateCaptcha">Type the characters you see</form>')),
    ),
    "recaptcha alone": (
        "captcha",
        "recaptcha",
        answer(page("Are you there?", '<form><div class="g-recaptcha"></div><button>Go on</button></form>')),
    ),
    "hcaptcha alone, refused": (
        "captcha",
        "hcaptcha",
        answer(page("Check", '<div class="h-captcha" data-sitekey="x"></div>'), 403),
    ),
    "turnstile alone": ("captcha", "turnstile", answer(page("Check", '<div class="cf-turnstile"></div>'))),
    "unusual traffic": (
        "rate_wall",
        "",
        answer(page("Sorry", "Our systems have seen <b>unusual traffic</b> from your network."), 503),
    ),
    "too many requests that says 200": (
        "rate_wall",
        "",
        answer(page("Slow down", "<h1>Too many requests</h1>")),
    ),
    "human": ("captcha", "", answer(page("Check", "<p>Please verify you are human to go on.</p>"), 403)),
    "login": (
        "login_wall",
        "",
        answer(page("Welcome", '<p>Sign in to continue</p><form><input type="password" name="p"></form>')),
    ),
    "login refused": ("login_wall", "", answer(page("No", "You must be logged in to see this."), 403)),
    "shell of react": (
        "empty_shell",
        "",
        answer(
            page(
                "App",
                '<noscript>You need scripts.</noscript><div id="root"></div><script src="/a.js"></script>',
            )
        ),
    ),
    "shell with a spinner": (
        "empty_shell",
        "",
        answer(
            page("App", '<div id="app"><div class="spin">Loading…</div></div><script src="/a.js"></script>')
        ),
    ),
    "shell of angular": (
        "empty_shell",
        "",
        answer(page("App", '<app-root></app-root><script src="main.js" type="module"></script>')),
    ),
    "shell with its state": (
        "empty_shell",
        "",
        answer(page("App", f'<div id="__next"></div><script>s={{"t": "{WORDS}"}}</script>')),
    ),
}

FORM = '<form action="/contact"><textarea></textarea><div class="g-recaptcha"></div></form>'
PAGES: dict[str, Response] = {
    "a site with a captcha in its form": answer(SITE % FORM),
    "an article with a captcha in its form": answer(ARTICLE % FORM),
    "a small contact page with navigation": answer(page("Contact", f"<nav>{NAVIGATION}</nav>{FORM}")),
    "an article about challenges": answer(
        ARTICLE % "<pre>window._cf_chl_opt; px-captcha; unusual traffic</pre>"
    ),
    "a page let through by cloudflare": answer(
        SITE % "<script src='/cdn-cgi/challenge-platform/scripts/jsd/main.js'></script>",
        server="cloudflare",
        cf_ray="1",
    ),
    "a short page let through by cloudflare": answer(
        page("Ok", "<p>Ok</p><script src='/cdn-cgi/challenge-platform/scripts/jsd/main.js'></script>")
    ),
    "a short page let through by imperva": answer(
        page("Ok", "<p>Ok</p><script src='/_Incapsula_Resource?SWJIYLWA=719'></script>"),
        Set_Cookie=["visid_incap_1=x", "incap_ses_1=y"],
    ),
    "a short page let through by datadome": answer(
        page("Ok", "<p>Ok</p><script src='https://js.datadome.co/tags.js'></script>"), Set_Cookie="datadome=x"
    ),
    "a page of a guarded host": answer(SITE % "", Set_Cookie=["ak_bmsc=1", "_px3=2", "datadome=3"]),
    "a login page that was asked for": answer(
        page("Log in", '<form><input type="password"></form>'), url="https://shop.example/login"
    ),
    "a short thread": answer(page("Thread", "<p>Me too!</p><p>You must be logged in to reply.</p>")),
    "a tiny page": answer(page("It works", "<h1>It works!</h1>")),
    "a tiny page with a script": answer(page("Pixel", "<script>1</script>")),
    "a rendered page of an app": answer(
        page("App", f'<div id="root"><p>{WORDS}</p></div><script src="/a.js"></script>')
    ),
    "nothing": answer(""),
    "a file": answer(b"\x89PNG captcha-delivery.com", Content_Type="image/png"),
    "data that speaks of captchas": answer('{"a": "px-captcha"}', Content_Type="application/json"),
    "a large page": answer(page("Large", "<!--" + "x" * 70_000 + "-->px-captcha")),
    "a plain 403": answer(
        "<html><head><title>403 Forbidden</title></head><center>nginx</center></html>", 403
    ),
    "apache's 403": answer(
        page("403 Forbidden", "<p>You don't have permission to access /x on this server.</p>"), 403
    ),
    "drupal's 403": answer(SITE % "<h1>Access denied</h1>You are not authorized to access this page.", 403),
    "a 403 in the site's clothes": answer(SITE % FORM, 403),
    "a plain 403 of a guarded host": answer(
        "<html><head><title>403 Forbidden</title></head></html>", 403, Set_Cookie="incap_ses_1=x"
    ),
    "a plain 429": answer(page("429", "<h1>Too Many Requests</h1>"), 429, Retry_After="10"),
    "a plain 503": answer(page("503", "<h1>Service Unavailable</h1><p>Back soon.</p>"), 503),
    "akamai cannot reach the origin": answer(
        page("Error", "An error occurred while processing your request.<p>Reference&#32;&#35;97&#46;x"),
        503,
        Server="AkamaiGHost",
    ),
    "a 404 with a captcha": answer(page("404", '<div class="g-recaptcha"></div>'), 404),
    "a 500": answer(page("500", "verify you are human"), 500),
}


@pytest.mark.parametrize("name", WALLS)
def test_walls(name: str) -> None:
    kind, vendor, response = WALLS[name]
    found = detect(response)
    assert found is not None
    assert (found.kind, found.vendor) == (kind, vendor)
    assert found.sign


@pytest.mark.parametrize("name", PAGES)
def test_pages_that_are_no_challenge(name: str) -> None:
    assert detect(PAGES[name]) is None


def test_the_corpus_covers_every_kind() -> None:
    assert {kind for kind, _, _ in WALLS.values()} == set(Settings().challenges)


@pytest.mark.parametrize(
    ("asked", "url", "kind"),
    [
        ("https://a.example/orders", "https://a.example/login?next=/orders", "login_wall"),
        ("https://a.example/", "https://a.example/users/sign_in", "login_wall"),
        ("https://a.example/in/joe", "https://a.example/authwall?x=1", "login_wall"),
        ("https://a.example/q?login", "https://b.example/account/Login.aspx", "login_wall"),
        ("https://a.example/p", "https://a.example/showcaptcha?to=p", "captcha"),
        ("https://a.example/search?q=x", "https://a.example/sorry/index?continue=x", "captcha"),
        ("https://a.example/login", "https://a.example/en/login", None),
        ("https://a.example/old", "https://a.example/blog/login-made-easy", None),
        ("https://a.example/old", "https://a.example/new?from=/login", None),
        ("https://a.example/old", "https://login.example", None),
    ],
)
def test_redirects_to_where_nobody_wanted_to_go(asked: str, url: str, kind: str | None) -> None:
    found = detect(answer(SITE % "", url=url), asked)
    assert (found.kind if found else None) == kind
    assert detect(answer(SITE % "", url=url), url) is None


def test_markers_can_be_found_at_all() -> None:
    for sign in (*VENDORS, *PHRASES, *WIDGETS):
        assert sign.marker == sign.marker.lower()
        assert sign.also == sign.also.lower()
    assert all(sign.value == sign.value.lower() for sign in HEADERS)


@pytest.mark.parametrize("sign", [*VENDORS, *PHRASES, *WIDGETS], ids=lambda sign: sign.marker.decode())
def test_every_marker_works_in_any_case(sign: Any) -> None:
    found = detect(answer(b"<P>" + sign.marker.upper() + b" " + sign.also.upper(), 403))
    assert found is not None
    assert (found.kind, found.vendor) == (sign.kind, sign.vendor)


@given(st.binary(max_size=300), st.sampled_from([200, 202, 403, 429, 503, 999, 100, 0]))
def test_any_bytes_are_looked_at_without_a_word(body: bytes, status: int) -> None:
    detect(answer(body, status))
    detect(answer(b"<div id=root><script>" + body, status))


@given(st.text(alphabet="ab <>/!-stylecrp\n", max_size=200))
def test_text_is_counted_within_bounds(text: str) -> None:
    assert 0 <= readable(text.encode(), 10_000) <= max(len(text), 10_000)


@pytest.mark.parametrize(
    ("body", "length"),
    [
        (b"", 0),
        (b"abc", 3),
        (b"<p> abc </p>\n<p>de", 5),
        (b"<script>if (a < b) x()</script>ab<style>p{}</style>", 2),
        (b"<!-- not this > nor that -->ab", 2),
        (b"<title>not this</title>ab", 2),
        (b"ab<script>never closed", 2),
        (b"ab<p never closed", 2),
        (b"<scripture>ab", 2),
    ],
)
def test_text_that_can_be_read(body: bytes, length: int) -> None:
    assert readable(body, 100) == length


@pytest.mark.parametrize("junk", [b"<", b"<b>", b"<script", b"<!--", b"<svg>", b"</script"])
def test_junk_takes_no_time(junk: bytes) -> None:
    response = answer(junk * (60_000 // len(junk)))
    assert min(timeit.repeat(lambda: detect(response), number=1, repeat=3)) < 0.05


def test_an_ordinary_page_costs_microseconds() -> None:
    response = answer((SITE % ("<p>" + WORDS + "</p>") * 9)[:15_000])
    assert min(timeit.repeat(lambda: detect(response), number=50, repeat=5)) / 50 < 100e-6


# -- what follows


def routed(
    challenge: Challenge, task: Task, response: Response | None = None, **settings: Any
) -> Retry | Dead | None:
    checks = Challenges(Settings(**settings))
    return checks.route(challenge, response or answer("x", 403), task, now=NOW, rng=random.Random(1))


def after(met: int, kind: str = "challenge") -> Task:
    """A task that met so many challenges already."""
    return Task(URL, attempt=met + 1, history=tuple(Failure(kind, attempt=n + 1) for n in range(met)))


def journey(kind: Any, **settings: Any) -> list[tuple[str, str | None, str | None]]:
    """Where a task goes that meets the same challenge everywhere: verdict, lane, pool."""
    challenge, task, steps = Challenge(kind, "acme", "x"), Task(URL, attempt=1), []
    while (step := routed(challenge, task, **settings)) is not None:
        lane_and_pool = (step.lane, step.pool) if isinstance(step, Retry) else (None, None)
        steps.append((type(step).__name__, *lane_and_pool))
        if isinstance(step, Dead) or len(steps) > 20:
            break
        task = Task(URL, attempt=task.attempt + 1, history=(*task.history, step.failure))
    return steps


ROUTES = ["pool:residential", "lane:browser"]


@pytest.mark.parametrize("kind", ["captcha", "bot_wall", "rate_wall"])
def test_a_wall_is_met_slowly_then_elsewhere_then_no_more(kind: str) -> None:
    assert journey(kind) == [("Retry", None, None), ("Dead", None, None)]
    assert journey(kind, challenge_routes=ROUTES) == [
        ("Retry", None, None),
        ("Retry", None, "residential"),
        ("Retry", "browser", None),
        ("Dead", None, None),
    ]


def test_waiting_does_not_log_in() -> None:
    assert journey("login_wall") == [("Dead", None, None)]
    assert journey("login_wall", challenge_routes=ROUTES) == [
        ("Retry", None, "residential"),
        ("Retry", "browser", None),
        ("Dead", None, None),
    ]


def test_a_shell_needs_a_browser_or_a_handler_that_knows() -> None:
    assert journey("empty_shell") == []
    assert journey("empty_shell", challenge_routes=ROUTES) == [("Retry", "browser", None)]


def with_browser(kind: Any, response: Response, *kinds: str, **settings: Any) -> Retry | Dead | None:
    """Where it goes from there if there is a browser, when it has failed with `kinds` before."""
    history = tuple(Failure(kind, attempt=n + 1) for n, kind in enumerate(kinds))
    task = Task(URL, attempt=len(kinds) + 1, history=history)
    checks = Challenges(Settings(**settings), browser=True)
    return checks.route(Challenge(kind, "", "x"), response, task, now=NOW, rng=random.Random(1))


def test_where_there_is_a_browser_it_is_a_route() -> None:
    plain, rendered = Response(URL, 200, {}, b""), Rendered(URL, 200, {}, b"")
    for kind in ("captcha", "bot_wall", "rate_wall"):
        first, second = with_browser(kind, plain), with_browser(kind, plain, "challenge")
        assert isinstance(first, Retry)
        assert isinstance(second, Retry)
        assert (first.lane, second.lane) == (None, "browser")
        assert isinstance(with_browser(kind, rendered, "challenge", "challenge"), Dead)
    shell = with_browser("empty_shell", plain)
    assert isinstance(shell, Retry)
    assert (shell.lane, shell.after) == ("browser", 0)
    assert isinstance(with_browser("login_wall", plain), Dead), "it does not log in"


def test_a_shell_in_a_browser_is_for_whoever_comes_after_it() -> None:
    rendered = Rendered(URL, 200, {}, b"")
    assert with_browser("empty_shell", rendered) is None
    assert with_browser("empty_shell", rendered, "empty_shell") is None
    routes = ["lane:urgent", "lane:browser", "lane:normal"]
    after = with_browser("empty_shell", rendered, challenge_routes=routes)
    assert isinstance(after, Retry)
    assert after.lane == "normal"


def test_routes_of_ones_own_and_a_switch_go_before_the_browser() -> None:
    plain = Response(URL, 200, {}, b"")
    assert with_browser("empty_shell", plain, challenge_routes=["pool:a"]) is None
    assert with_browser("empty_shell", plain, escalate=False) is None
    for settings, escalates in (
        ({}, True),
        ({"escalate": False}, False),
        ({"challenge_routes": ["pool:a"]}, False),
        ({"challenge_routes": ["pool:a", "lane:browser"]}, True),
        ({"challenge_routes": ["lane:browser"], "escalate": False}, False),
    ):
        assert Challenges(Settings(**settings), browser=True).escalates == escalates  # type: ignore[arg-type]
    assert not Challenges(Settings()).escalates


def test_delays_double_and_are_spread() -> None:
    challenge = Challenge("captcha", "", "x")
    for met in range(4):
        step = routed(challenge, after(met), challenge_routes=["pool:a"] * 4)
        assert isinstance(step, Retry)
        assert 60 * 2**met <= step.after <= 90 * 2**met
    lazy = routed(challenge, after(2), challenge_routes=["pool:a"] * 4, challenge_delay=10_000.0)
    assert isinstance(lazy, Retry)
    assert lazy.after <= 3600 * 1.5


def test_a_longer_retry_after_is_obeyed() -> None:
    step = routed(Challenge("bot_wall", "", "x"), Task(URL, attempt=1), answer("x", 503, Retry_After="500"))
    assert isinstance(step, Retry)
    assert step.after >= 500


def test_the_dead_letter_tells_what_was_seen() -> None:
    response = answer("<p>px-captcha", 403, Set_Cookie="session=hunter2")
    step = routed(Challenge("captcha", "perimeterx", "the page says x"), after(1), response)
    assert isinstance(step, Dead)
    failure, snapshot = step.failure, step.snapshot
    assert failure == Failure(
        "challenge", "captcha by perimeterx: the page says x", NOW, status=403, elapsed=0.2, attempt=2
    )
    assert snapshot is not None
    assert snapshot.body == b"<p>px-captcha"
    assert "hunter2" not in repr(snapshot)


def test_a_replayed_task_starts_anew() -> None:
    once = after(3).history
    step = routed(Challenge("captcha", "", "x"), Task(URL, attempt=1, history=once))
    assert isinstance(step, Retry)
    step = routed(
        Challenge("captcha", "", "x"), Task(URL, attempt=2, history=(*once, Failure("challenge", attempt=1)))
    )
    assert isinstance(step, Dead)


def test_other_failures_in_between_do_not_count() -> None:
    history = (Failure("timeout", attempt=1), Failure("http_503", attempt=2))
    step = routed(Challenge("captcha", "", "x"), Task(URL, attempt=3, history=history))
    assert isinstance(step, Retry)
    assert step.after <= 90


@pytest.mark.parametrize("kind", Settings().challenges)
def test_every_challenge_is_a_row_of_the_table(kind: Any) -> None:
    step = routed(Challenge(kind, "", "x"), Task(URL, attempt=1), challenge_routes=["lane:browser"])
    assert step is not None
    assert step.failure.kind in TABLE


# -- settings


def look(response: Response, **settings: Any) -> Challenge | None:
    return Challenges(Settings(**settings)).look(response)


def test_kinds_can_be_switched_off() -> None:
    captcha = WALLS["perimeterx"][2]
    assert look(captcha) is not None
    assert look(captcha, challenges=["login_wall"]) is None
    assert look(captcha, challenges=[]) is None


def test_a_status_the_handler_wants_goes_to_the_handler() -> None:
    assert look(WALLS["perimeterx"][2], handle_status=[403]) is None


def test_shells_matter_only_where_somebody_can_fill_them() -> None:
    shell = WALLS["shell of react"][2]
    assert look(shell) is None
    assert look(shell, challenge_routes=["pool:a"]) is None
    assert look(shell, challenge_routes=["lane:browser"]) is not None


@pytest.mark.parametrize("entry", ["browser", "lane:", "proxy:a", "", ":x"])
def test_a_route_that_is_none_is_told_at_once(entry: str) -> None:
    with pytest.raises(
        SettingsError, match=re.escape(f"challenge_routes: {entry!r} is no route; write lane:NAME")
    ):
        Challenges(Settings(challenge_routes=[entry]))


def test_a_lane_that_is_not_there_is_no_route() -> None:
    with pytest.raises(SettingsError, match="there is no lane named 'slow'; add it with lanes"):
        Challenges(Settings(challenge_routes=["lane:slow"]))
    Challenges(Settings(challenge_routes=["lane:slow"], lanes={"slow": 1.0}))


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user's with checks."""

    def queue(response: Response) -> str | None:
        return "the queue" if b"Please queue" in response.body else None

    def members(_: Response) -> str:
        return "login_wall"

    def broken(_: Response) -> str:
        raise KeyError("oops")

    module = ModuleType("own_checks")
    vars(module).update(queue=queue, members=members, broken=broken)
    monkeypatch.setitem(sys.modules, "own_checks", module)


@pytest.mark.usefixtures("own")
def test_a_check_of_the_users_is_asked_too() -> None:
    check = {"challenge_check": "own_checks:queue"}
    assert look(answer(SITE % "Please queue"), **check) == Challenge(
        "bot_wall", "", "own_checks:queue says 'the queue'"
    )
    assert look(answer(SITE % ""), **check) is None
    assert look(WALLS["perimeterx"][2], **check) == detect(WALLS["perimeterx"][2])
    assert look(answer(SITE % "Please queue"), challenges=[], **check) is not None


@pytest.mark.usefixtures("own")
def test_a_check_may_name_the_kind() -> None:
    found = look(answer(SITE % ""), challenge_check="own_checks:members")
    assert found is not None
    assert found.kind == "login_wall"


@pytest.mark.usefixtures("own")
def test_a_broken_check_is_named_once_and_costs_no_page(caplog: pytest.LogCaptureFixture) -> None:
    checks = Challenges(Settings(challenge_check="own_checks:broken"))
    with caplog.at_level(logging.WARNING):
        assert checks.look(answer(SITE % "")) is None
        assert checks.look(answer(SITE % "")) is None
    assert len(caplog.records) == 1
    assert "own_checks:broken failed on https://shop.example/p/1" in caplog.text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("checks", "write module:function"),
        ("no_such_module_here:f", "ModuleNotFoundError"),
        ("json:nothing", "json has no function nothing"),
        ("string:digits", "string has no function digits"),
    ],
)
def test_a_check_that_cannot_be_had_is_told_at_once(path: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as error:
        Challenges(Settings(challenge_check=path))
    assert str(error.value).startswith(f"challenge_check: {path!r}")
    assert "\n" not in str(error.value)
