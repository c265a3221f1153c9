"""The dashboard in a real Chromium, over a crawl that runs: a steady host, one that fails, one that mends, one that
speaks in tags. Whatever a page writes to the console as an error fails its test."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    Route,
    ViewportSize,
    expect,
    sync_playwright,
)

from e2e.dashboard_world import (
    A11Y,
    CONTRAST,
    GOOD,
    PATIENCE,
    SHOAL,
    TAGS,
    Crawl,
    Mending,
    clean_environment,
    dashboard_over,
    mending_host,
)
from shoal.dashboard.server import Served
from shoal.fetch.browser import chromium
from shoal.fetch.browser.executable import find_chromium
from shoal.settings import Settings
from shoal.testing import HostProfile, WebProcess
from shoal.text import humanize
from which_browser import FULL

# Every page, and what it shows when its data has come.
PAGES = {
    "overview": "tbody tr",
    "hosts": "tbody tr",
    "workers": "tbody tr",
    "proxies": ".vacant-title",
    "errors": "tbody tr",
    "dead": "tbody tr",
    "tasks": "input",
    "events": ".log li",
}
WIDE: ViewportSize = {"width": 1280, "height": 900}
NICED = Path(chromium.__file__).with_name("niced.sh")  # without an address bar
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    folder = tmp_path_factory.mktemp("dashboard")
    hosts = {"steady": HostProfile("fast", pages=1500), "failing": HostProfile("failing")}
    with WebProcess(hosts) as web, mending_host() as mending:
        crawl = Crawl(web.addresses["steady"], web.addresses["failing"], mending, folder / "shoal.db")
        process = crawl.start(folder)
        try:
            yield crawl
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            finally:
                process.kill()


@pytest.fixture(scope="module")
def served(crawl: Crawl) -> Iterator[Served]:
    with dashboard_over(crawl.store) as served:
        yield served


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        yield playwright


@contextmanager
def launched(playwright: Playwright, name: str = "") -> Iterator[Browser]:
    path = find_chromium(Settings(browser_path=name))
    if path is None:
        pytest.skip("no Chromium on this machine")
    environment = {**clean_environment(), "SHOAL_CHROMIUM": str(path)}
    with playwright.chromium.launch(executable_path=NICED, args=list(FLAGS), env=environment) as browser:
        yield browser


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with launched(playwright) as browser:
        yield browser


@contextmanager
def context_of(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(viewport=WIDE) as context:
        context.set_default_timeout(PATIENCE * 1000)
        yield context


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with context_of(browser) as context:
        yield context


def open_page(context: BrowserContext, complaints: list[str]) -> Page:
    page = context.new_page()
    page.on(
        "console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    return page


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    """What the browser complained about: a test that expects something to go wrong clears it."""
    return []


@contextmanager
def without_complaint(page: Page, complaints: list[str]) -> Iterator[Page]:
    complaints.clear()
    yield page
    assert page.evaluate("window.pwned") is None
    assert complaints == []


@pytest.fixture
def fresh(context: BrowserContext, complaints: list[str]) -> Iterator[Page]:
    """A page of its own, with its own session: for tests of coming in, and for those that leave traces."""
    with without_complaint(open_page(context, complaints), complaints) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def tab(browser: Browser, complaints: list[str]) -> Iterator[Page]:
    with context_of(browser) as context:
        yield open_page(context, complaints)


@pytest.fixture
def page(tab: Page, complaints: list[str]) -> Iterator[Page]:
    """The page that tests share, as a person leaves one open: to load it takes longer than most tests."""
    with without_complaint(tab, complaints):
        yield tab
        tab.unroute_all()
        tab.set_viewport_size(WIDE)


def enter(page: Page, served: Served, place: str = "overview") -> None:
    if page.url.startswith(f"{served.url}/#"):
        go(page, "overview")
    else:
        page.goto(served.login_url)
    expect(page.locator("#title")).to_have_text("Overview")
    go(page, place)


def go(page: Page, place: str) -> None:
    page.evaluate("place => { location.hash = '#/' + place }", place)
    page.locator(f".page-{place.partition('/')[0].partition('?')[0]}").wait_for()


def number_in(page: Page, figure: str) -> int:
    tile = page.locator(".figure", has=page.locator(f".figure-name:text-is('{figure}')"))
    return int(tile.locator(".figure-value").inner_text().replace(",", "").replace("-", "0"))


def row(page: Page, text: str) -> Any:
    return page.locator("tbody tr", has_text=text)


# -- coming in


def test_the_token_opens_the_door_and_leaves_the_address(fresh: Page, served: Served) -> None:
    fresh.goto(f"{served.url}/login")
    fresh.get_by_label("Token").fill(served.token)
    fresh.get_by_role("button", name="Log in").click()
    expect(fresh.get_by_role("heading", level=1)).to_have_text("Overview")
    fresh.goto(f"{served.login_url}&again")  # another tab, the address as it was printed
    expect(fresh.locator("#title")).to_have_text("Overview")
    assert served.token not in fresh.url
    fresh.get_by_role("button", name="log out").click()
    expect(fresh.get_by_label("Token")).to_be_visible()


def test_a_wrong_token_is_told_so(fresh: Page, served: Served, complaints: list[str]) -> None:
    fresh.goto(f"{served.url}/login#token=wrong")
    expect(fresh.locator("#refusal")).to_be_visible()
    assert "token" in fresh.locator("#refusal").inner_text()
    assert fresh.evaluate("location.hash") == ""
    complaints.clear()  # the browser reports the 401


def test_without_a_session_nothing_is_shown(context: BrowserContext, served: Served) -> None:
    for path in ("/api/overview", "/api/hosts", "/api/dead", "/api/stream", "/metrics"):
        answer = context.request.get(f"{served.url}{path}")
        assert answer.status == 401, path
    assert context.request.post(f"{served.url}/api/dead", data={"action": "drop"}).status == 401
    assert "Token" in context.request.get(served.url).text()


def test_a_session_that_ended_leads_to_the_login_and_back(
    fresh: Page, served: Served, complaints: list[str]
) -> None:
    enter(fresh, served, "events")
    fresh.context.clear_cookies()
    fresh.reload()
    fresh.get_by_label("Token").fill(served.token)
    fresh.get_by_label("Token").press("Enter")
    expect(fresh.locator("#title")).to_have_text("Events")
    complaints.clear()  # the browser reports the 401


# -- seeing


def test_a_live_crawl_moves(page: Page, served: Served, crawl: Crawl) -> None:
    it_moves(page, served)


def test_a_live_crawl_moves_in_the_full_browser(
    playwright: Playwright, served: Served, crawl: Crawl, complaints: list[str]
) -> None:
    with (
        launched(playwright, FULL) as browser,
        context_of(browser) as context,
        without_complaint(open_page(context, complaints), complaints) as page,
    ):
        it_moves(page, served)
        assert page.evaluate(A11Y) == GOOD
        assert page.evaluate(CONTRAST) == []


def it_moves(page: Page, served: Served) -> None:
    enter(page, served)
    expect(page.locator(".pulse-state")).to_have_text("live")
    before = number_in(page, "done")
    page.wait_for_function(
        """before => {
          const tile = [...document.querySelectorAll('.figure')].find(one => one.textContent.startsWith('done'));
          return Number(tile.querySelector('.figure-value').textContent.replaceAll(',', '')) > before + 3;
        }""",
        arg=before,
    )
    expect(row(page, "harbour").locator(".chip")).to_have_text("●running")
    expect(page.locator(".charts canvas")).to_have_count(3)
    expect(page.locator(".bars-name", has_text="normal")).to_be_visible()


def test_hosts_are_sorted_and_found(page: Page, served: Served, crawl: Crawl) -> None:
    enter(page, served, "hosts")
    expect(row(page, crawl.failing)).to_be_visible()
    header = page.get_by_role("columnheader", name="queue")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    expect(page.locator("tbody tr").first).to_contain_text(crawl.steady)
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(page.locator("tbody tr").last).to_contain_text(crawl.steady)
    assert "sort=pending" in page.url
    page.keyboard.press("/")
    page.keyboard.type(crawl.failing)
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_nothing_is_held_back_is_not_said_of_held_hosts(page: Page, served: Served, crawl: Crawl) -> None:
    enter(page, served, "overview")
    told = page.get_by_role("region", name="What holds the crawl back")
    expect(told).to_contain_text("waiting: ")
    expect(told).to_contain_text("eld back")
    expect(told).not_to_contain_text("Nothing holds")


def test_a_host_that_cools_down_is_explained(page: Page, served: Served, crawl: Crawl) -> None:
    enter(page, served, "hosts?condition=cooling+down")
    failing = row(page, crawl.failing)
    expect(failing.locator(".chip")).to_contain_text("cooling down")
    failing.get_by_role("link").click()
    expect(page.locator("#title")).to_have_text(crawl.failing)
    why = page.get_by_role("region", name="What holds it back")
    expect(why).to_contain_text("is cooling down: ")
    expect(why).to_contain_text("http_503")
    expect(page.get_by_role("region", name="Latest errors")).to_contain_text("http_503")


def test_a_host_is_blocked_set_and_unblocked(page: Page, served: Served, crawl: Crawl) -> None:
    enter(page, served, f"hosts?q={crawl.mending}")
    row(page, crawl.mending).get_by_role("link").click()
    why = page.get_by_role("region", name="What holds it back")
    page.get_by_role("button", name=f"block {crawl.mending}", exact=True).click()
    page.get_by_label("reason").fill(f"asked to by {TAGS}")
    page.get_by_label("for", exact=True).select_option("600")
    page.get_by_role("dialog").get_by_role("button", name="block").click()
    expect(why).to_contain_text(f"(asked to by {TAGS})")
    expect(page.locator(".host-head .chip")).to_contain_text("blocked")
    page.get_by_role("button", name="set limits").click()
    page.get_by_label("requests at once").fill("1")
    page.get_by_role("dialog").get_by_role("button", name="set").click()
    expect(why).to_contain_text("1 at a time")
    page.get_by_role("button", name="unblock").click()
    expect(page.locator(".host-head .chip")).to_have_text("●healthy")
    page.get_by_role("button", name="set limits").click()
    page.get_by_label("requests at once").fill("")
    page.get_by_role("dialog").get_by_role("button", name="set").click()
    expect(why).to_contain_text("as fast as it may")


def test_errors_workers_and_events_tell_of_the_crawl(page: Page, served: Served, crawl: Crawl) -> None:
    enter(page, served, "errors")
    expect(row(page, "http_404")).to_contain_text("not found")
    go(page, "workers")
    workers, flights = (page.get_by_role("region", name=name) for name in ("Workers", "Pages in flight"))
    expect(workers.get_by_role("row").nth(1)).to_contain_text("nothing")
    expect(flights.get_by_role("heading", name="Pages in flight")).to_be_visible()
    go(page, "events")
    expect(page.locator(".log li", has_text="breaker_opened")).to_contain_text(crawl.failing)
    page.get_by_label("level").select_option("warning")
    expect(page.locator(".log li", has_text="job_started")).to_have_count(0)
    page.get_by_label("event", exact=True).fill("no such event")
    expect(page.get_by_text("no event matches")).to_be_visible()


# -- acting


def test_a_dead_letter_is_replayed_and_done(page: Page, served: Served, crawl: Crawl) -> None:
    enter(page, served, f"dead?host={crawl.mending}")
    letter = row(page, crawl.late)
    letter.get_by_role("link").click()
    expect(page.get_by_role("region", name="Why")).to_contain_text("http_404 not found")
    expect(page.locator(".timeline li")).to_have_count(1)
    Mending.mended.set()
    page.get_by_role("button", name="replay").click()
    expect(page.locator(".notice", has_text="is in the queue again")).to_be_visible()
    expect(page.locator("#title")).to_have_text("Dead letters")
    expect(row(page, crawl.late)).to_have_count(0)
    go(page, "tasks")
    page.get_by_label("URL").fill(crawl.late)
    answer = page.locator(".answer-first")
    for _ in range(int(PATIENCE)):
        page.get_by_role("button", name="ask why").click()
        answer.wait_for()
        if answer.inner_text().startswith("done"):
            break
        page.wait_for_timeout(300)
    expect(answer).to_have_text("done: fetched, there or where it redirected to")


def test_dead_letters_are_dropped_in_bulk_after_a_question(page: Page, served: Served, crawl: Crawl) -> None:
    enter(page, served, f"dead?host={crawl.mending}")
    letters = page.locator("tbody tr", has_text="/gone/")
    expect(letters).to_have_count(4)
    letters.nth(0).get_by_role("checkbox").check()
    letters.nth(1).get_by_role("checkbox").check()
    page.get_by_role("button", name="drop 2").click()
    expect(page.get_by_role("button", name="cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(letters).to_have_count(4)
    page.get_by_role("button", name="drop 2").click()
    page.get_by_role("dialog").get_by_role("button", name="drop").click()
    expect(page.locator(".notice", has_text="2 dead letters dropped")).to_be_visible()
    expect(letters).to_have_count(2)
    page.get_by_label("died of").fill("http_404")
    page.get_by_role("button", name="drop all").click()
    page.get_by_role("dialog").get_by_role("button", name="drop").click()
    expect(letters).to_have_count(0)


def test_a_job_is_paused_resumed_and_cancelled(fresh: Page, tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    subprocess.run(
        [*SHOAL, "submit", "http://127.0.0.1:9/", "--store", str(store), "--job", "later"],
        cwd=tmp_path,
        env=clean_environment(),
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    with dashboard_over(store) as served:
        enter(fresh, served)
        expect(fresh.locator(".hold")).to_contain_text("no worker is running")
        job = row(fresh, "later")
        job.get_by_role("button", name="pause job later").click()
        expect(job.locator(".chip")).to_have_text("▲paused")
        job.get_by_role("button", name="resume job later").click()
        expect(job.locator(".chip")).to_have_text("●running")
        job.get_by_role("button", name="cancel job later").click()
        fresh.get_by_role("dialog").get_by_role("button", name="cancel", exact=True).click()
        expect(fresh.get_by_role("dialog")).to_have_count(0)
        expect(job.locator(".chip")).to_have_text("●running")
        job.get_by_role("button", name="cancel job later").click()
        fresh.get_by_role("dialog").get_by_role("button", name="cancel the job").click()
        expect(job.locator(".chip")).to_have_text("■cancelled")
        expect(job.get_by_role("button")).to_have_count(0)
        fresh.goto("about:blank")


def test_an_empty_store_says_what_to_do_next(fresh: Page, tmp_path: Path) -> None:
    with dashboard_over(tmp_path / "shoal.db") as served:
        enter(fresh, served)
        expect(fresh.get_by_role("region", name="Jobs")).to_contain_text("shoal submit FILE.py")
        hints = {"hosts": "shoal crawl URL", "workers": "shoal worker FILE.py", "proxies": "[proxies]"}
        for place, said in hints.items():
            go(fresh, place)
            expect(fresh.locator("main")).to_contain_text(said)
        fresh.goto("about:blank")


# -- what must not happen


def test_tags_stay_text(page: Page, served: Served, crawl: Crawl, complaints: list[str]) -> None:
    enter(page, served, "dead?kind=handler")
    row(page, "/poison").get_by_role("link").click()
    expect(page.get_by_role("region", name="Traceback").first).to_contain_text(TAGS)
    expect(page.get_by_role("region", name="Response").first).to_contain_text("<script>")
    go(page, "events")
    expect(page.locator(".log li", has_text="handler_failed").first).to_contain_text("/poison")
    go(page, f"tasks?url={crawl.steady}/%3Cscript%3Ewindow.pwned=1%3C/script%3E")
    expect(page.locator(".answer-first")).to_be_visible()
    go(page, "hosts/%3Cscript%3Ewindow.pwned=1%3C%2Fscript%3E")
    expect(page.get_by_role("alert").filter(has_text="no host")).to_be_visible()
    assert page.locator("main script, main img").count() == 0
    assert len(complaints) == 1  # the browser reports the 404, and nothing else
    assert "404" in complaints.pop()


def test_a_job_shows_its_newest_rows_and_pages(page: Page, served: Served, crawl: Crawl) -> None:
    enter(page, served)
    row(page, "harbour").get_by_role("link", name="harbour").click()
    expect(page.locator("#title")).to_have_text("harbour")
    rows = page.get_by_role("region", name="Newest rows")
    expect(rows.locator("tbody tr").first).to_contain_text(TAGS)
    expect(rows.locator("img, script")).to_have_count(0)
    pages = page.get_by_role("region", name="Latest pages")
    expect(pages.locator("tbody tr", has_text="done 200").first).to_be_visible()
    page.get_by_role("link", name="all jobs").click()
    expect(page.locator("#title")).to_have_text("Overview")


def test_characters_that_hide_or_reorder_text_are_shown_as_such(page: Page, served: Served) -> None:
    enter(page, served)
    shown = """async () => {
      const {el, put, say} = await import("/static/js/dom.js"), evil = "a\\u202eb\\u2066\\u001b\\u200b\\ud800\\tc\\n";
      const said = el("p");
      say(said, evil);
      return [el("p", {title: evil}, evil), put(el("p", {title: evil}), [evil]), said]
        .map(node => [node.title, node.textContent]).flat();
    }"""
    plain = "a\ufffdb\ufffd\ufffd\ufffd\ufffd\tc\n"
    assert page.evaluate(shown) == [plain, plain, plain, plain, "", plain]


def test_another_origin_cannot_act(fresh: Page, served: Served, crawl: Crawl, complaints: list[str]) -> None:
    """Another port of the same address is the same site: the session's cookie comes along."""
    enter(fresh, served, "dead?kind=handler")
    expect(row(fresh, "/poison")).to_have_count(1)
    statuses: list[int] = []
    fresh.on(
        "response",
        lambda got: statuses.append(got.status) if got.request.method == "POST" else None,
    )
    body = json.dumps({"action": "drop", "filter": {}, "all": True})
    for host in ("127.0.0.1", "localhost"):
        fresh.goto(f"http://{host}:{crawl.mending.rpartition(':')[2]}/poison?as=page")
        fresh.evaluate(
            """async ([url, body]) => {
              const options = {method: 'POST', mode: 'no-cors', credentials: 'include', body};
              await fetch(url + '/api/dead', options).catch(() => {});
              await fetch(url + '/logout', options).catch(() => {});
              const form = document.createElement('form');
              Object.assign(form, {method: 'post', action: url + '/api/dead', enctype: 'text/plain'});
              document.body.append(form);
              form.submit();
            }""",
            [served.url, body],
        )
        fresh.wait_for_url(f"{served.url}/api/dead")
    assert statuses
    assert all(status in (401, 403) for status in statuses), statuses
    enter(fresh, served, "dead?kind=handler")
    expect(row(fresh, "/poison")).to_have_count(1)
    complaints.clear()  # the foreign page runs its own tags, and the browser reports the refusals


def test_read_only_shows_everything_and_offers_nothing(fresh: Page, crawl: Crawl, served: Served) -> None:
    with dashboard_over(crawl.store, read_only=True) as read_only:
        enter(fresh, read_only)
        expect(row(fresh, "harbour")).to_be_visible()
        expect(fresh.get_by_text("read-only", exact=True)).to_be_visible()
        for place in ("overview", "dead", f"hosts/{crawl.failing}", "dead?kind=handler"):
            go(fresh, place)
            expect(fresh.locator("main .card").first).to_be_visible()
            actions = fresh.locator("main").get_by_role("button", name="pause").or_(fresh.locator(".danger"))
            assert actions.count() == 0, place
            assert fresh.locator("main input[type=checkbox]").count() == 0, place
        csrf = fresh.evaluate("fetch('/api/session').then(answer => answer.json())")["csrf"]
        answer = fresh.context.request.post(
            f"{read_only.url}/api/dead", data={"action": "drop", "ids": [1]}, headers={"X-Shoal-CSRF": csrf}
        )
        assert answer.status == 403
        fresh.goto("about:blank")


def test_a_lost_connection_is_told_and_mends(fresh: Page, served: Served, complaints: list[str]) -> None:
    fresh.route("**/api/stream", lambda route: route.abort())
    enter(fresh, served)
    expect(fresh.locator("#offline")).to_contain_text("No connection")
    fresh.unroute("**/api/stream")
    expect(fresh.locator("#offline")).to_be_hidden()
    expect(fresh.locator(".pulse-state")).to_have_text("live")
    complaints.clear()  # the browser reports the aborted request


# -- for everyone


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_readable_named_and_fits(page: Page, served: Served, crawl: Crawl, theme: str) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    enter(page, served, "dead?kind=handler")
    letter = row(page, "/poison").get_by_role("link").get_attribute("href")
    assert letter is not None
    places = {**PAGES, f"hosts/{crawl.failing}": "dd", letter.removeprefix("#/"): "pre"}
    places["jobs/harbour"] = ".kinds tbody tr"
    for place, content in places.items():
        page.set_viewport_size({"width": 1280, "height": 900})
        go(page, place)
        expect(page.locator(f"main {content}").first).to_be_visible()
        assert page.evaluate(A11Y) == GOOD, place
        assert page.evaluate(CONTRAST) == [], place
        for width in (1280, 820, 390, 360):
            page.set_viewport_size({"width": width, "height": 844})
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{place} is {wide} px too wide at {width} px"
        assert page.evaluate(CONTRAST) == [], place


def test_the_phone_menu_leads_everywhere(page: Page, served: Served) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    enter(page, served)
    expect(page.get_by_role("link", name="Events")).to_be_hidden()
    page.get_by_role("button", name="More").click()
    page.get_by_role("link", name="Events").click()
    expect(page.locator("#title")).to_have_text("Events")
    expect(page.get_by_role("link", name="Proxies")).to_be_hidden()


def test_keys_and_theme(fresh: Page, served: Served) -> None:
    enter(fresh, served)
    fresh.keyboard.press("g")
    fresh.keyboard.press("w")
    expect(fresh.locator("#title")).to_have_text("Workers")
    expect(fresh.locator("#title")).to_be_focused()
    fresh.keyboard.press("?")
    expect(fresh.get_by_role("dialog")).to_contain_text("Dead letters")
    fresh.keyboard.press("Escape")
    expect(fresh.get_by_role("dialog")).to_have_count(0)
    fresh.get_by_role("button", name="theme: system").click()
    fresh.get_by_role("button", name="theme: light").click()
    fresh.reload()
    expect(fresh.locator("html")).to_have_attribute("data-theme", "dark")
    ground = fresh.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in ground[4:-1].split(",")) < 150


def test_very_many_hosts_are_read_page_by_page(page: Page, served: Served) -> None:
    enter(page, served)

    def answer(route: Route) -> None:
        after = int(route.request.url.partition("after=")[2].partition("&")[0] or 0)
        host = {"condition": "healthy", "until": None, "rate": 2.0, "in_flight": 0, "cap": 2, "latency": 0.1}
        host |= {"timeout": 2.0, "pending": 7, "errors": []}
        hosts = [{**host, "host": f"h{n:06}.example"} for n in range(after, after + 500)]
        route.fulfill(json={"now": 0.0, "hosts": hosts, "after": str(after + 500)})

    page.route("**/api/hosts?*", answer)
    go(page, "hosts")
    expect(page.locator(".pager")).to_contain_text("the first 100 of 500 hosts on this page")
    page.get_by_role("button", name="next page").click()
    expect(page.locator("tbody tr").first).to_contain_text("h000500.example")
    expect(page.locator("tbody tr")).to_have_count(100)
    assert page.evaluate("document.querySelectorAll('*').length") < 5_000
    page.get_by_role("button", name="previous page").click()
    expect(page.locator("tbody tr").first).to_contain_text("h000000.example")


def test_numbers_read_as_on_the_command_line(page: Page, served: Served) -> None:
    numbers = [
        0,
        1 / 86_400_000,
        0.0042,
        0.081,
        0.33,
        0.999,
        1.26,
        9.94,
        12.34,
        59.2,
        61,
        99.4,
        99.96,
        100,
        1234.4,
        3725,
        1e5,
        2e6,
        7e9,
    ]
    enter(page, served)
    for name in ("rate", "speed", "latency", "duration", "span"):
        told = page.evaluate(
            "([name, all]) => import('/static/js/words.js').then(words => all.map(words[name]))",
            [name, numbers],
        )
        assert told == [getattr(humanize, name)(float(number)) for number in numbers], name
    for name in ("count", "size"):
        whole = [round(number) for number in numbers]
        told = page.evaluate(
            "([name, all]) => import('/static/js/words.js').then(words => all.map(words[name]))",
            [name, whole],
        )
        assert told == [getattr(humanize, name)(number) for number in whole], name
    shares = [0, 0.5, 0.9996, 1]
    told = page.evaluate("all => import('/static/js/words.js').then(words => all.map(words.percent))", shares)
    assert told == [humanize.percent(share) for share in shares]
    counts = {"b": 7, "a": 7, "many": 12345, **{f"n{number}": 1 for number in range(9)}}
    told = page.evaluate("all => import('/static/js/words.js').then(words => words.byCount(all))", counts)
    assert told == humanize.by_count(counts)
