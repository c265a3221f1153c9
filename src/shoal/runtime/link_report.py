"""Which links of a site are broken: joins what its pages link to with what came of each URL.

The rows of the crawl are in a SQLite file, URLs that gave no answer are dead letters of the store. The join is made in
SQLite, so memory does not grow with the links, and it can be made again at any time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from msgspec import Struct

from shoal.admit.canonical import Canonicaliser
from shoal.admit.identity import fingerprint, host_key
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter
from shoal.model import DeadLetter, Task
from shoal.policy.outcomes import rule_for
from shoal.settings import Settings
from shoal.spider.link_check import has_anchor, way_of

State = Literal["ok", "broken", "unsure", "unchecked"]
_RANK: dict[State, int] = {"ok": 0, "broken": 1, "unsure": 2, "unchecked": 3}
_NO_ROBOTS = (
    "robots.txt cannot be fetched: "  # as the first thing that was asked of a host that does not answer
)
_PAGE = 1_000  # dead letters that are read at once
_HOPS = 5  # pages that redirected to one that redirected …

# A server that says so does not want robots, or wants somebody to log in: a person may see the page.
_UNSURE_STATUS = frozenset({401, 402, 403, 405, 406, 407, 429, 451, 999})
_UNSURE = frozenset(
    {
        *(
            "challenge",
            "login_wall",
            "empty_shell",
            "forbidden_address",
            "handler_timeout",
            "handler",
            "junk",
            "hook",
        ),
        *(
            "http_429",
            "robots_unreachable",
            "origin_wait",
            "no_browser",
            "browser_crash",
            "browser_wait",
            "unexpected",
        ),
        *("worker_lost", "hung", "transport", "untrusted"),
    }
)
_UNCHECKED = frozenset({"robots", "policy", "not_archived"})
_THERE = frozenset({"too_large"})  # it answered


class Problem(Struct, frozen=True):
    """A link that does not work, or may not."""

    page: str  # that has it; "": it is a start URL
    text: str
    url: str
    problem: State
    status: int | None
    error: str
    target: str | None  # where it was redirected to


class LinkReport(Struct):
    pages: int = 0  # of the site that were looked through
    links: int = 0  # different URLs, as they are written
    broken: int = 0  # links, each once for every page that has it
    unsure: int = 0
    unchecked: int = 0  # URLs
    why_unchecked: dict[str, int] = {}


class LinkJoin:
    """The join, while it is open."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self._canonical = Canonicaliser(settings.tracking_params)
        # Without a row there is no file: nothing has answered.
        self._db = sqlite3.connect(
            f"file:{quote(str(path))}?mode=ro" if path.exists() else ":memory:", uri=True
        )
        self._tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_schema")}
        self._db.execute(
            "CREATE TEMP TABLE verdict(key TEXT PRIMARY KEY, url, state, rank, status, error, target, start)"
            " WITHOUT ROWID"
        )
        self._db.execute("CREATE TEMP TABLE linked(key TEXT PRIMARY KEY, url, bad) WITHOUT ROWID")
        self.report = LinkReport()

    def close(self) -> None:
        self._db.close()

    async def join(self, frontier: Frontier, job: str) -> None:
        if "link" in self._tables:
            self._db.execute("INSERT OR IGNORE INTO linked SELECT key, url, bad FROM link")
            self.report.pages = self._count("SELECT count(DISTINCT page) FROM link")
        self._results()
        await self._letters(frontier, job)
        await self._merged(frontier, job)
        self.report.links = self._count("SELECT count(*) FROM linked")
        self._unchecked()

    def _count(self, sql: str) -> int:
        return int(self._db.execute(sql).fetchone()[0])

    def _note(
        self,
        key: str,
        url: str,
        state: State,
        status: int | None = None,
        error: str = "",
        target: str | None = None,
        start: bool = False,
    ) -> None:
        """Of several answers for a URL, the best counts: it may have been asked for twice, by HEAD and for its
        links."""
        self._db.execute(
            "INSERT INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(key) DO UPDATE SET state = excluded.state,"
            " rank = excluded.rank, status = excluded.status, error = excluded.error, target = excluded.target"
            " WHERE excluded.rank < rank",
            (key, url, state, _RANK[state], status, error, target, start),
        )

    def _results(self) -> None:
        for key, url in self._db.execute("SELECT key, url FROM linked WHERE bad"):
            self._note(key, url, "broken", error="not a URL")
        if "result" not in self._tables:
            return
        sql = "SELECT key, url, status, target, start FROM result"
        for key, url, status, target, start in self._db.execute(sql):
            state: State = "ok" if status < 400 else "unsure" if status in _UNSURE_STATUS else "broken"
            error = "" if status < 400 else f"HTTP {status}: {rule_for(f'http_{status}').meaning}"
            self._note(key, url, state, status, error, target, bool(start))

    async def _letters(self, frontier: Frontier, job: str) -> None:
        before: tuple[float, int] | None = None
        while letters := await frontier.dead(DeadFilter(job=job, limit=_PAGE, before=before)):
            for letter in letters:
                self._buried(letter)
            before = letters[-1].at, letters[-1].task.id

    def _buried(self, letter: DeadLetter) -> None:
        task = letter.task
        failure = task.history[-1] if task.history else None
        status = failure.status if failure is not None else None
        detail = failure.detail.removeprefix(_NO_ROBOTS) if failure is not None else ""
        error = f"{letter.kind}: {detail}" if detail else letter.kind
        way = way_of(task)
        target = task.url if len(way) > 1 else None
        for key in dict.fromkeys(map(self._canonical, way)):
            self._note(key, way[0], _state_of(letter.kind), status, error[:300], target, task.parent == 0)

    async def _merged(self, frontier: Frontier, job: str) -> None:
        """URLs that redirected to one with a task of its own: what came of that one holds for them."""
        sql = "SELECT key, url FROM linked WHERE key NOT IN (SELECT key FROM verdict)"
        for key, url in self._db.execute(sql).fetchall():
            into, at = None, key
            for _ in range(_HOPS):
                if (next_one := await self._into(frontier, job, at)) is None:
                    break
                into, at = next_one, self._canonical(next_one)
                found = self._db.execute(
                    "SELECT state, status, error, target FROM verdict WHERE key = ?", (at,)
                ).fetchone()
                if found is not None:
                    state, status, error, target = found
                    self._note(key, url, state, status, error, target or into)
                    break

    async def _into(self, frontier: Frontier, job: str, key: str) -> str | None:
        for method in ("HEAD", "GET"):
            page = Task(key, job=job, host=host_key(key), fingerprint=fingerprint(key, method))
            if into := (await frontier.find(job, page)).into:
                return into
        return None

    def _unchecked(self) -> None:
        report = self.report
        sql = (
            "SELECT error, count(*) FROM linked JOIN verdict USING(key) WHERE state = 'unchecked' GROUP BY 1"
        )
        for error, number in self._db.execute(sql):
            reason = error.partition(":")[2].strip() or error
            report.why_unchecked[reason] = report.why_unchecked.get(reason, 0) + number
        none = self._count("SELECT count(*) FROM linked WHERE key NOT IN (SELECT key FROM verdict)")
        if none:
            report.why_unchecked["outside the limits of the crawl"] = none
        report.unchecked = sum(report.why_unchecked.values())

    def problems(self) -> Iterator[Problem]:
        """Those of start URLs first, then by page. Counts them."""
        for problem in self._found():
            if problem.problem == "broken":
                self.report.broken += 1
            else:
                self.report.unsure += 1
            yield problem

    def _found(self) -> Iterator[Problem]:
        wanted = "state IN ('broken', 'unsure')"
        sql = (
            "SELECT DISTINCT url, state, status, error, target FROM verdict"
            f" WHERE start AND {wanted} AND key NOT IN (SELECT key FROM linked)"
        )
        for url, state, status, error, target in self._db.execute(sql):
            yield Problem("", "", url, state, status, error, target)
        if "link" not in self._tables:
            return
        sql = (
            "SELECT link.page, link.text, link.url, state, status, error, target FROM link JOIN verdict USING(key)"
            f" WHERE {wanted} ORDER BY link.page, link._row"
        )
        for page, text, url, state, status, error, target in self._db.execute(sql):
            yield Problem(page, text, url, state, status, error, target)
        yield from self._lost_anchors()

    def _lost_anchors(self) -> Iterator[Problem]:
        """Links to a part of a page that the page does not have."""
        columns = {row[1] for row in self._db.execute("PRAGMA table_info(link)")}
        if "fragment" not in columns or "result" not in self._tables:
            return
        sql = (
            "SELECT link.key, link.page, link.text, link.url, link.fragment, verdict.status, verdict.target FROM link"
            " JOIN verdict USING(key) WHERE link.fragment IS NOT NULL AND state = 'ok' ORDER BY link.key, link._row"
        )
        self._db.execute("CREATE TEMP TABLE there(key TEXT PRIMARY KEY, anchors) WITHOUT ROWID")
        self._db.execute(
            "INSERT OR IGNORE INTO there SELECT key, anchors FROM result WHERE anchors IS NOT NULL"
            " AND key IN (SELECT key FROM link WHERE fragment IS NOT NULL)"
        )
        last, anchors = "", None
        for key, page, text, url, fragment, status, target in self._db.execute(sql):
            if key != last:
                found = self._db.execute("SELECT anchors FROM there WHERE key = ?", (key,)).fetchone()
                last, anchors = key, frozenset(json.loads(found[0])) if found else None
            if anchors is not None and not has_anchor(fragment, anchors):
                yield Problem(
                    page, text, url, "broken", status, f"no anchor #{fragment} on that page", target
                )


def _state_of(kind: str) -> State:
    if kind in _THERE:
        return "ok"
    if kind in _UNCHECKED:
        return "unchecked"
    status = kind[5:]
    if kind in _UNSURE or (kind.startswith("http_") and status.isdigit() and int(status) in _UNSURE_STATUS):
        return "unsure"
    return "broken"


def joined(path: Path, settings: Settings) -> closing[LinkJoin]:
    """To be used in a `with` block."""
    return closing(LinkJoin(path, settings))
