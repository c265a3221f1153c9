"""What the browser lane promises most, in the full browser, where the other tests use a headless shell; and that it
comes after everything else on the machine."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from browser import browser, html, shown, text_of
from integration import test_browser, test_browser_bounds
from integration.raw_server import always, serve
from integration.test_browser_bounds import current
from shoal.fetch.browser.transport import BrowserTransport
from which_browser import FULL, low_priority

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium() -> AsyncIterator[BrowserTransport]:
    async with browser(browser_path=FULL) as transport:
        with low_priority():
            async with serve(always(html("<p>a"))) as server:
                await text_of(transport, server.url("/"))  # starts it
        yield transport


async def test_it_runs_at_a_lower_priority(chromium: BrowserTransport) -> None:
    async with serve(always(html("<p>a"))) as server:
        answer = await shown(chromium, server.url("/"))
        nice = {os.getpriority(os.PRIO_PROCESS, pid) for pid in current(chromium).processes.pids()}
        await answer.close()
    assert min(nice) >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)


test_a_page_after_its_scripts = test_browser.test_a_page_after_its_scripts
test_only_the_page_is_asked_for = test_browser.test_only_the_page_is_asked_for
test_dialogs_and_popups_do_not_get_in_the_way = test_browser.test_dialogs_and_popups_do_not_get_in_the_way
test_what_a_handler_can_do = test_browser.test_what_a_handler_can_do
test_a_redirect_is_answered = test_browser.test_a_redirect_is_answered
test_what_is_no_page_comes_as_it_is = test_browser.test_what_is_no_page_comes_as_it_is
test_headers_are_for_the_pages_own_origin = test_browser.test_headers_are_for_the_pages_own_origin
test_sessions_are_apart = test_browser.test_sessions_are_apart

test_a_private_page = test_browser_bounds.test_a_private_page
test_no_script_reaches_inside = test_browser_bounds.test_no_script_reaches_inside
test_nor_does_a_call = test_browser_bounds.test_nor_does_a_call
test_a_tab_that_dies_leaves_the_browser = test_browser_bounds.test_a_tab_that_dies_leaves_the_browser
test_no_process_shows_its_address_bar = test_browser_bounds.test_no_process_shows_its_address_bar
