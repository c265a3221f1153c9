"""`shoal crawl URL --check-links` finds what is broken, and nothing else."""

from __future__ import annotations

import csv
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from e2e.broken_site import AWAY, DOWN, BrokenSite, broken_site

CLI = Callable[..., tuple[int, str, str]]
QUICK = (
    *("--rate", "0", "--allow-network", "127.0.0.0/8", "-s", "read_timeout=0.5", "-s", "retry_base=0.01"),
    *(
        "-s",
        "breaker_cooldown=0.05",
        "-s",
        "dns_servers=127.0.0.1:9",
        "-s",
        "dns_timeout=0.5",
        "-s",
        "escalate=false",
    ),
)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def expected(site: BrokenSite) -> dict[tuple[str, str], tuple[str, str]]:
    """By page and URL: the problem, and how its description begins."""
    home, deep = site.at("/"), site.at("/deep")
    away = lambda path: site.at(path, AWAY)  # noqa: E731
    broken = {
        (home, site.at("/gone404")): "HTTP 404",
        (deep, site.at("/gone404")): "HTTP 404",
        (home, site.at("/gone410")): "HTTP 410",
        (home, site.at("/error500")): "HTTP 500",
        (home, site.at("/old-gone")): "HTTP 404",
        (home, site.at("/loop")): "redirect_loop",
        (home, site.at("/away")): "HTTP 404",
        (home, away("/missing")): "HTTP 404",
        (home, away("/silent")): "read_timeout",
        (home, f"http://{DOWN}:9/"): "connect",
        (home, f"https://{AWAY}:{site.port}/tls"): "tls",
        (home, "http://exa mple/"): "not a URL",
        (home, "http://no-such.example/"): "dns",
        (home, site.at("/missing.png")): "HTTP 404",
        (home, site.at("/ok#nope")): "no anchor #nope",
    }
    told = {link: ("broken", error) for link, error in broken.items()}
    return told | {(home, away("/refuses")): ("unsure", "HTTP 403")}


def test_every_kind_of_broken_link(cli: CLI, tmp_path: Path) -> None:
    with broken_site() as site:
        flags = ("--check-links", "--check-assets", "--check-anchors", "-o", "broken.csv", *QUICK)
        code, _, err = cli("crawl", site.at("/"), *flags)
        rows = table(tmp_path / "broken.csv")
        truth = expected(site)
        found = {(row["page"], row["url"]): (row["problem"], row["error"]) for row in rows}
        assert found.keys() == truth.keys()
        for link, (problem, error) in truth.items():
            assert (found[link][0], found[link][1].startswith(error)) == (problem, True), (link, found[link])
        assert len(rows) == len(truth)
        assert code == 1
        assert "15 broken links" in err
        assert "not checked: forbidden by robots.txt 1" in err
        hits = [hit for hit in site.hits if hit[2] != "/error500"]
        assert (AWAY, "GET", "/private") not in hits
        assert (AWAY, "HEAD", "/private") not in hits
        assert [method for host, method, path in hits if (host, path) == (AWAY, "/ok")] == [
            "HEAD"
        ]  # once, no body
        assert [method for host, method, path in hits if (host, path) == (AWAY, "/no-head")] == [
            "HEAD",
            "GET",
        ]
        assert not [hit for hit in hits if hit[1:] == ("GET", "/big.pdf")]

        asked = len(site.hits)
        again, _, err = cli("crawl", site.at("/"), *flags)  # the report can be made again
        assert (again, len(site.hits)) == (1, asked)
        assert table(tmp_path / "broken.csv") == rows
    [by_target] = [row for row in rows if row["url"].endswith("/old-gone")]
    assert by_target["target"] == site.at("/gone404")
    assert next(row["text"] for row in rows if row["url"] == site.at("/missing.png")) == "a picture"
    [links] = tmp_path.glob("*-links.sqlite")
    with sqlite3.connect(links) as db:
        assert db.execute("SELECT count(*) FROM link WHERE url = ?", (site.at("/ok"),)).fetchone() == (1,)
    db.close()


def test_a_site_without_broken_links(cli: CLI, tmp_path: Path) -> None:
    with broken_site() as site:
        code, _, err = cli("crawl", site.at("/ok"), "--check-links", "--depth", "0", *QUICK)
        assert code == 0, err
        assert "no broken links" in err
        code, _, err = cli("crawl", site.at("/gone404"), "--check-links", "-o", "b.jsonl", *QUICK)
        assert (code, "(a start URL)" in err) == (1, True)
        assert '"page":""' in (tmp_path / "b.jsonl").read_text()


def test_what_cannot_be_checked_is_said(cli: CLI) -> None:
    code, _, err = cli("crawl", "spider.py", "--check-links")
    assert (code, "is for URLs, and spider.py is a spider" in err) == (2, True)
    code, _, err = cli("crawl", "http://127.0.0.1:9/", "--check-links", "-o", "postgresql://h/d")
    assert (code, "goes to a file, such as broken.csv" in err) == (2, True)


def test_linkchecker_finds_the_same(cli: CLI, tmp_path: Path) -> None:
    """A second opinion. Names and mail addresses it would look up outside of this machine."""
    with broken_site(silent=False) as site:
        cli("crawl", site.at("/"), "--check-links", "--check-assets", "-o", "broken.csv", *QUICK)
        ours = {row["url"] for row in table(tmp_path / "broken.csv")}
        (tmp_path / "rc").write_text("[checking]\ntimeout=20\nmaxrequestspersecond=1000\nthreads=8\n")
        ignored = ("--ignore-url=mailto:", "--ignore-url=no-such")
        command = [sys.executable, "-m", "linkcheck", "-f", str(tmp_path / "rc"), "--check-extern", *ignored]
        ran = subprocess.run(
            [*command, "-o", "csv", site.at("/")], capture_output=True, text=True, timeout=60
        )
    lines = [line for line in ran.stdout.splitlines() if not line.startswith("#")]
    theirs = [row["urlname"] for row in csv.DictReader(lines, delimiter=";") if row["valid"] == "False"]
    named = {url if url.startswith("http") else site.at(url) for url in theirs}
    assert named == ours - {"http://no-such.example/"}, ran.stderr


def test_killed_and_resumed_it_reports_the_same(cli: CLI, tmp_path: Path) -> None:
    with broken_site(silent=False) as site:
        words = ("crawl", site.at("/"), "--check-links", "-o", "broken.csv", *QUICK, "-s", "lease=1")
        command = [sys.executable, "-m", "shoal", *words, "--rate", "20"]
        with subprocess.Popen(
            command, cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as crawl:
            with site.asked:
                assert site.asked.wait_for(lambda: len(site.hits) >= 9, timeout=30)
            crawl.kill()
        assert not (tmp_path / "broken.csv").exists()
        code, _, err = cli(*words)
        assert code == 1, err
        found = {(row["page"], row["url"]) for row in table(tmp_path / "broken.csv")}
        assets_and_anchors = {(site.at("/"), site.at(path)) for path in ("/missing.png", "/ok#nope")}
        assert found == expected(site).keys() - assets_and_anchors - {
            (site.at("/"), site.at("/silent", AWAY))
        }
