"""The cache and pages behind a login: what somebody saw who was not logged in is no answer for a member."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from e2e.members_site import PAGES, Members, serving
from e2e.test_logins import SPIDER, account

Cli = Callable[..., tuple[int, str, str]]


def test_a_tried_login_page_is_no_page_of_the_crawl(cli: Cli) -> None:
    with serving(Members()) as site:
        Path("members.py").write_text(SPIDER.format(url=site.url, accounts=account("anna")))
        code, out, _ = cli("try", "members.py")
        assert code == 1
        assert "a crawl logs in, this command does not" in out

        code, _, err = cli("crawl", "members.py", "-q", "--cache", ".shoal/pages")
        assert (code, err) == (0, "")
        assert site.logins == {"anna": 1}
        assert len(Path("members.jsonl").read_text().splitlines()) == PAGES

        # … and what a member saw can be tried.
        code, out, _ = cli("try", "members.py", "--handler", "item")
        assert code == 0
        assert "from the cache" in out
        assert site.logins == {"anna": 1}


def test_a_tried_login_page_is_judged_by_a_crawl(cli: Cli) -> None:
    """Also without a login in the spider, it is no page for a handler."""
    with serving(Members()) as site:
        text = SPIDER.format(url=site.url, accounts="")
        before, _, after = text.partition("@spider.login")
        Path("members.py").write_text(before + after.partition("\n\n\n")[2])
        assert cli("try", "members.py")[0] == 1
        code, out, _ = cli("try", "members.py", "--offline")
        assert code == 1
        assert "from the cache" in out

        code, _, err = cli("crawl", "members.py", "-q", "--cache", ".shoal/pages")
        assert code == 1
        assert "every page failed" in err
