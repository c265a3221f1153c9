"""`shoal crawl URL --check-links`: what it crawls, where its rows go, and what it says at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from shoal.errors import CrawlFailed, UsageError

if TYPE_CHECKING:
    from shoal.inspect.job import View
    from shoal.runtime.crawl import JobPlan
    from shoal.runtime.link_report import LinkReport
    from shoal.spider.loading import SpiderSource
    from shoal.terminal.link_table import ShownProblem

_SHOWN = 20  # URLs in the table


class ReportPlaces(Struct, frozen=True):
    output: tuple[str, ...]  # of broken links
    rows: str  # the SQLite file with all links, which the report is made from


def checks_of(*, links: bool, assets: bool, anchors: bool) -> tuple[str, ...]:
    """--check-assets and --check-anchors mean --check-links, too."""
    if not (links or assets or anchors):
        return ()
    return ("links", *(["assets"] if assets else []), *(["anchors"] if anchors else []))


def checking(
    source: SpiderSource, checks: tuple[str, ...], job: str | None, output: Sequence[str] | None
) -> tuple[SpiderSource, ReportPlaces | None]:
    """The source of a crawl that checks links. It is another job than a crawl of the same URLs."""
    if not checks:
        return source, None
    from shoal.sink.outputs import plain_name, read_output

    if source.spec is not None:
        raise UsageError(
            f"--check-links is for URLs, and {source.spec} is a spider: give the URL of the site"
        )
    name = f"{source.name}-links"
    stem = plain_name(job or name)
    places = read_output([*output] if output else [f"{stem}-broken.csv"])
    for place in places:
        if place.kind not in ("file", "stdout") or "{" in place.target:
            raise UsageError(
                f"-o {place.text}: the report of --check-links goes to a file, such as broken.csv"
            )
    folder = next((place.path.parent for place in places if place.kind == "file"), Path())
    rows = folder / f"{stem.removesuffix('-links')}-links.sqlite"
    places_given = tuple(place.text for place in places)
    return replace(source, name=name, checks=checks), ReportPlaces(places_given, str(rows))


def tell(plan: JobPlan, view: View, places: ReportPlaces, quiet: bool) -> None:
    """Writes the report, and shows it. Raises CrawlFailed if links are broken."""
    from shoal.engine.event_loop import run_loop
    from shoal.telemetry.logging import only_json
    from shoal.terminal.console import say
    from shoal.terminal.link_table import print_links
    from shoal.text import humanize

    if view.job.state != "finished":
        say("the report is made when all links are checked")
        return
    shown, report = run_loop(_report(plan, places))
    where = " and ".join(places.output)
    if not quiet and not only_json():
        print_links(shown, report, where, places.rows)
    if report.broken:
        raise CrawlFailed(f"{humanize.plural(report.broken, 'broken link')}: see {where}")


async def _report(plan: JobPlan, places: ReportPlaces) -> tuple[list[ShownProblem], LinkReport]:
    import msgspec

    from shoal.frontier import open_frontier
    from shoal.runtime.link_report import joined
    from shoal.sink.exporting import Exporter
    from shoal.sink.outputs import read_output
    from shoal.terminal.link_table import ShownProblem

    shown: dict[tuple[str, str], ShownProblem] = {}
    columns = {"broken": ["page", "text", "url", "problem", "status", "error", "target"]}
    settings = replace(plan.settings, columns={**columns, **plan.settings.columns})
    exporter = Exporter(read_output(places.output), settings, replace=True)
    try:
        async with open_frontier(plan.store) as frontier:
            with joined(Path(places.rows), plan.settings) as join:
                await join.join(frontier, plan.job)
                for problem in join.problems():
                    exporter.add("broken", msgspec.to_builtins(problem))
                    same = problem.url, problem.error
                    if same in shown:
                        shown[same].pages += 1
                    elif len(shown) < _SHOWN:
                        shown[same] = ShownProblem(problem)
        exporter.finish()
    except BaseException:
        exporter.discard()
        raise
    return [*shown.values()], join.report
