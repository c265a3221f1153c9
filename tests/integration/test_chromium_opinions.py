"""What a real Chromium makes of the same page: what it sends for a form, which text it shows, and which page it names
as the one it comes from."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import async_playwright
from yarl import URL

from shoal.admit.referrer import BROWSER, referer_to
from shoal.engine.handling import referrer_policy
from shoal.errors import SpiderError
from shoal.fetch.browser.executable import find_chromium
from shoal.fetch.cookie_jar import CookieJar
from shoal.model import Response, Task
from shoal.settings import Settings
from shoal.spider.page import Page

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXTS = (
    '<input name=a value=1><input name="b c" value="x y&z=ü+*~-_.%"><input type=hidden name=h value="1\n2">'
)
FORMS = {
    "plain": f"<form>{TEXTS}</form>",
    "action": f'<form action="/go/there?old=1#part">{TEXTS}</form>',
    "base": f'<base href="/other/"><form action="go?x=1">{TEXTS}</form>',
    "post": f'<form method=POST action="go?x=1#f">{TEXTS}</form>',
    "no action": f"<form method=post>{TEXTS}</form>",
    "plain text": f"<form method=post enctype=text/plain>{TEXTS}</form>",
    "parts": f"<form method=post enctype=multipart/form-data>{TEXTS}"
    "<input name='q\"r'><input type=file name=f></form>",
    "file": "<form method=post><input type=file name=f><input name=a></form>",
    "boxes": "<form><input type=checkbox name=a checked><input type=checkbox name=b value=2 checked>"
    "<input type=checkbox name=c><input type=radio name=r value=1><input type=radio name=r value=2 checked>"
    "<input type=checkbox name=e value='' checked></form>",
    "select": "<form><select name=a><option value=1>one<option>  two  words </select>"
    "<select name=b><option disabled>no<option>yes</select><select name=c><option>1<option selected>2</select>"
    "<select name=d multiple><option selected>1<option>2<option selected value=three>3</select>"
    "<select name=e size=3><option>1</select><select name=f></select>"
    "<select name=g><optgroup disabled><option>1</optgroup><option>2</select>"
    "<select name=h><option selected>1<option selected>2</select>"
    "<select name=i><option selected disabled value=x>1<option>2</select></form>",
    "area": "<form><textarea name=a>\nfirst\nsecond\r\nthird &amp; &lt;b&gt;</textarea>"
    "<textarea name=b></textarea></form>",
    "disabled": "<form><input name=a disabled><fieldset disabled><legend><input name=b></legend><input name=c>"
    "<legend><input name=d></legend></fieldset><datalist><input name=e></datalist><input name=f></form>",
    "no names": "<form><input value=1><input name='' value=2><button>go</button></form>",
    "button": "<form><input name=a><button type=button name=no>x</button><button name=b value=1>y</button>"
    "<button name=c value=2>z</button><input type=submit name=s value=S><input type=reset name=r></form>",
    "button says": "<form action=/no><input name=a value=1>"
    "<button formaction=/yes formmethod=post name=b>y</button></form>",
    "button parts": "<form method=post><button formenctype=multipart/form-data name=b value=1>y</button></form>",
    "image": "<form><input type=image name=i><input name=a></form>",
    "outside": "<form id=f></form><input name=a form=f value=1><form><input name=b form=f value=2>"
    "<input name=c></form><button form=f name=d value=4>go</button>",
    "table": "<table><form action=/t><tr><td><input name=a value=1></td></tr><tr><td><input name=b value=2>"
    "<input type=submit></td></tr></form></table><input name=c>",
    "two in a table": "<table><tr><form action=/t><td><input name=a></td></form></tr>"
    "<tr><form action=/u><td><input name=b></td></form></tr></table>",
    "charset": "<form accept-charset='nonsense iso-8859-1'><input name=ü value='ü€日'>"
    "<input type=hidden name=_charset_></form>",
    "utf-8": "<form><input type=hidden name=_charset_><input name=ü value='😀'></form>",
    "lines": "<form><input name=a value='1\n2'>"
    "<input type=hidden name=b value='1\r3\n4'><input name=c type=email></form>",
    "dirname": "<form><input name=a dirname=a.dir value=x><textarea name=b dirname=b.dir dir=rtl></textarea></form>",
    "nested fieldsets": "<form><fieldset disabled><legend><fieldset><input name=a></fieldset></legend>"
    "<fieldset><input name=b></fieldset></fieldset><input name=c></form>",
    "empty": "<form></form>",
    "odd method": "<form method=put enctype=odd/one><input name=a></form>",
    "odd enctype": "<form method=post enctype=odd/one><input name=a value=1></form>",
}
LEGACY = {
    "windows-1252": "<form method=post><input name=a value='ü€日'></form>",
    "gbk": "<form><input name=a value='日€😀'></form>",
    "shift_jis": "<form><input name=a value='日ソ€'></form>",
}


class Sent(NamedTuple):
    method: str
    target: str  # path and query
    content_type: str
    body: bytes


class Site:
    """Shows a form, and keeps what is sent by it."""

    def __init__(self) -> None:
        self.body, self.charset = b"", ""
        self.headers: dict[str, str] = {}
        self.sent: list[Sent] = []
        self.referers: list[str] = []

    async def answer(self, request: web.BaseRequest) -> web.Response:
        if request.path == "/favicon.ico":
            return web.Response(status=404)
        if request.raw_path == "/form" and request.method == "GET":
            return web.Response(
                body=self.body,
                headers={"Content-Type": f"text/html; charset={self.charset}", **self.headers},
            )
        self.referers.append(request.headers.get("Referer", ""))
        self.sent.append(
            Sent(
                request.method,
                request.raw_path,
                request.headers.get("Content-Type", ""),
                await request.read(),
            )
        )
        return web.Response(text="thanks")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def site() -> AsyncIterator[tuple[Site, str]]:
    site = Site()
    runner = web.ServerRunner(web.Server(site.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield site, f"http://127.0.0.1:{runner.addresses[0][1]}/form"
    await runner.cleanup()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def tab() -> AsyncIterator[Any]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(Settings()), args=["--no-sandbox"]
        )
        yield await browser.new_page()
        await browser.close()


SUBMIT = """() => {
    const form = document.forms[0];
    const button = [...form.elements].concat([...document.querySelectorAll('input[type=image]')])
        .find(one => ['submit', 'image'].includes(one.type) && !one.matches(':disabled'));
    form.requestSubmit(button ?? null);
}"""


async def sent_by_chromium(tab: Any, site: tuple[Site, str], markup: str, charset: str) -> Sent:
    shop, url = site
    shop.body, shop.charset, shop.sent = markup.encode(charset), charset, []
    await tab.goto(url)
    async with tab.expect_navigation():
        await tab.evaluate(SUBMIT)
    [sent] = shop.sent
    return sent


def sent_by_page(url: str, markup: str, charset: str, **options: Any) -> Sent:
    headers = {"Content-Type": f"text/html; charset={charset}"}
    page = Page(Task(url), Response(url, 200, headers, markup.encode(charset)), "one")
    request = page.submit_form(**options)
    target = request.url.removeprefix(url.removesuffix("/form")).partition("#")[0]
    kind = (request.headers or {}).get("Content-Type", "")
    return Sent(request.method, target, kind, request.body or b"")


def without_boundary(sent: Sent) -> Sent:
    kind, mark, boundary = sent.content_type.partition("; boundary=")
    return (
        sent._replace(content_type=kind + mark, body=sent.body.replace(boundary.encode(), b"-"))
        if mark
        else sent
    )


@pytest.mark.parametrize("markup", FORMS.values(), ids=FORMS)
async def test_a_form_is_sent_as_a_browser_does(tab: Any, site: tuple[Site, str], markup: str) -> None:
    markup = "<!doctype html>" + markup
    expected = await sent_by_chromium(tab, site, markup, "utf-8")
    assert without_boundary(sent_by_page(site[1], markup, "utf-8")) == without_boundary(expected)


@pytest.mark.parametrize("charset", LEGACY)
async def test_a_form_in_a_legacy_encoding(tab: Any, site: tuple[Site, str], charset: str) -> None:
    markup = "".join(c if c.encode(charset, "ignore") else f"&#{ord(c)};" for c in LEGACY[charset])
    expected = await sent_by_chromium(tab, site, markup, charset)
    assert sent_by_page(site[1], markup, charset) == expected


# -- filled in

LOGIN = (
    "<form id=search><input name=q></form>"
    "<form id=login method=post action=/login><input type=hidden name=csrf value=t0ken><input name=user>"
    "<input type=password name=pass><input type=checkbox name=stay value=yes>"
    "<select name=lang multiple><option>de<option selected>en</select>"
    "<button name=go value=1>Log in</button><button name=go value=2 id=other>Other</button></form>"
)
FILLED = [
    ({"user": "ann", "pass": "a b"}, {}, b"csrf=t0ken&user=ann&pass=a+b&lang=en&go=1"),
    ({"user": 5, "stay": True}, {}, b"csrf=t0ken&user=5&pass=&lang=en&go=1&stay=yes"),
    ({"csrf": None, "user": False, "lang": ["de", "en"]}, {}, b"pass=&lang=de&lang=en&go=1"),
    ({"extra": "x"}, {"click": False}, b"csrf=t0ken&user=&pass=&lang=en&extra=x"),
    ({}, {"click": "#other"}, b"csrf=t0ken&user=&pass=&lang=en&go=2"),
]


@pytest.mark.parametrize(("fields", "options", "body"), FILLED)
async def test_fields_are_filled_in(fields: dict[str, Any], options: dict[str, Any], body: bytes) -> None:
    sent = sent_by_page("http://127.0.0.1/form", LOGIN, "utf-8", selector="#login", fields=fields, **options)
    assert sent == ("POST", "/login", "application/x-www-form-urlencoded", body)
    inside = sent_by_page(
        "http://127.0.0.1/form", LOGIN, "utf-8", selector="input[type=password]", fields=fields, **options
    )
    assert inside == sent


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"selector": "#nothing"}, "nothing matches '#nothing'; the page has 2 forms"),
        ({"selector": "body"}, "<body> is not a form, nor inside of one"),
        ({"selector": "#search", "click": "#other"}, "<button> is not a submit button of this form"),
        ({"fields": {"q": {}}}, "the value of field 'q' is a dict; give a text, a number or a list"),
    ],
)
async def test_what_cannot_be_submitted_is_told(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpiderError, match=re.escape(said)):
        sent_by_page("http://127.0.0.1/form", LOGIN, "utf-8", **options)


# -- text

TEXT = {
    "blocks": "<p>A.</p><p>b<br>c</p>",
    "inline": "<b>in</b>line <i>x</i><u>y</u> z",
    "list": "<ul><li>one<li>two<ul><li>three</ul></ul>",
    "table": "<table><caption>T</caption><tr><th>a<td>b<tr><td>c<td>d</table>",
    "definition": "<dl><dt>a<dd>b</dl>",
    "script": "a<script>var p = '<p>no</p>'</script>b<style>p {}</style>c<template><p>no</p></template>d",
    "comment": "a<!-- <p>no</p> -->b",
    "references": "1 &lt; 2 &amp;&amp; 3 &gt; 2 &amp;lt; &nbsp; &copy; &quot;",
    "attributes": '<a title="a > b <p> &quot;" href=x>link</a>s<img alt="<br>">t',
    "sections": "<header>a</header><main><h1>b</h1><article>c</article></main><footer>d</footer>",
    "similar names": "<span>a</span><sub>b</sub><dfn>c</dfn><code>d</code>"
    "<pre>e\nf</pre><custom-p>g</custom-p>h<p-x>i</p-x>",
    "choice": "<select><option>a<option>b</select>",
    "text alone": "  just \n text ",
    "nothing": "",
    "tags in attributes": "a<b title='<!--'>b</b><i title='--><script>'>c</i>d<u title='<plaintext>'>e</u>",
    "svg": "a<svg><text>b</text></svg>c",
}


@pytest.mark.parametrize("markup", TEXT.values(), ids=TEXT)
async def test_the_text_is_what_a_reader_sees(tab: Any, markup: str) -> None:
    markup = f"<!doctype html><title>t</title><div>{markup}</div>"
    await tab.set_content(markup)
    expected = " ".join((await tab.evaluate("document.querySelector('div').innerText")).split())
    page = Page(Task("http://a.test/"), Response("http://a.test/", 200, {}, markup.encode()), "one")
    assert page.text("div") == page.text() == expected


# -- the Referer

POLICIES = [
    *("no-referrer", "same-origin", "origin", "strict-origin", "origin-when-cross-origin"),
    *("strict-origin-when-cross-origin", "", "bogus", "same-origin, bogus", "origin, no-referrer"),
]
METAS = {
    "meta": "<meta name=referrer content=origin>",
    "old names": "<meta name=Referrer content=never>",
    "twice": "<meta name=referrer content=origin><meta name=referrer content=same-origin>",
    "unknown": "<meta name=referrer content=bogus>",
    "a list": "<meta name=referrer content='origin, no-referrer'>",
}


@pytest.mark.parametrize("markup", ["", *METAS.values()], ids=["none", *METAS])
@pytest.mark.parametrize("policy", POLICIES[:1] + POLICIES[6:7])
async def test_the_referer_of_a_page_with_markup(
    tab: Any, site: tuple[Site, str], policy: str, markup: str
) -> None:
    await compare_referers(tab, site, policy, markup)


@pytest.mark.parametrize("policy", POLICIES)
async def test_the_referer_is_what_a_browser_sends(tab: Any, site: tuple[Site, str], policy: str) -> None:
    await compare_referers(tab, site, policy, "")


async def compare_referers(tab: Any, site: tuple[Site, str], policy: str, markup: str) -> None:
    shop, url = site
    here = url.replace("/form", "/to")
    targets = [here, here.replace("127.0.0.1", "localhost")]
    shop.body, shop.charset, shop.referers = (markup + "<a></a>").encode(), "utf-8", []
    shop.headers = {"Referrer-Policy": policy} if policy else {}
    for target in targets:
        await tab.goto(f"{url}#part")
        async with tab.expect_navigation():
            await tab.evaluate(
                "to => { const a = document.querySelector('a'); a.href = to; a.click() }", target
            )
    headers = {"Content-Type": "text/html", **shop.headers}
    page = Page(Task(url), Response(url, 200, headers, shop.body), "one")
    wanted = referrer_policy(page) or BROWSER
    assert [referer_to(target, url, wanted) for target in targets] == shop.referers
    shop.headers = {}


# -- cookies: in two things Chromium differs from RFC 6265bis, it refuses tabs and takes Max-Age=+60

COOKIES = [
    *("a=1", " a = 1 ; x", "a=", "a=b=c", 'a="1; 2"', 'a="1 2"', "a b=1, 2", "a=ü", "a=;b=2"),
    *(
        "a=1; Path=/",
        "a=1; Path=/form",
        "a=1; Path=/other/",
        "a=1; Path=form",
        "a=1; path=/x; PATH=/y",
        "a=1; Path",
    ),
    *(
        "a=1; HttpOnly",
        "a=1; httponly=no",
        "a=1; SameSite=Strict",
        "a=1; SameSite=odd",
        "a=1; Domain=127.0.0.1",
    ),
    *("a=1; Domain=0.0.1", "a=1; Domain=other.example", "a=1; Domain=", "__Secure-a=1", "__host-a=1; Path=/"),
    *(
        "a=1; Max-Age=60",
        "a=1; Max-Age=0",
        "a=1; Max-Age=-1",
        "a=1; Max-Age=9999999999999",
    ),
    *("a=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
    *(
        "a=1; Expires=Wed, 21-Oct-37 07:28:00 GMT",
        "a=1; Expires=21 oct 2037 07:28:00",
        "a=1; Expires=tomorrow",
    ),
    *(f"a={'x' * 4_095}", f"a={'x' * 4_096}", f"a=1; Path=/{'x' * 1_023}", f"a=1; Path=/{'x' * 1_024}"),
]


async def test_cookies_are_those_that_a_browser_has(tab: Any, site: tuple[Site, str]) -> None:
    shop, url = site
    shop.body, shop.charset = b"<p>", "utf-8"
    await tab.goto(url)
    for line in COOKIES:
        shop.headers = {"Set-Cookie": line}
        await tab.context.clear_cookies()
        await tab.evaluate("url => fetch(url).then(answer => answer.text())", url)
        theirs = [
            (one["name"], one["value"], one["path"], one["httpOnly"], round(one["expires"], -1))
            for one in await tab.context.cookies()
        ]
        jar = CookieJar()
        jar.set([line], URL(url))
        ours = [(one.name, one.value, one.path, one.http_only, round(one.expires or -1, -1)) for one in jar]
        assert [one[:4] for one in ours] == [one[:4] for one in theirs], line
        assert [one[4] for one in ours] == pytest.approx([one[4] for one in theirs], abs=20), line
    shop.headers = {}
