"""`shoal why`: why a URL has (not) been fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.options import DEFAULT_STORE, AsJson, Store
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.explain import Answer
    from shoal.frontier.protocol import Frontier


def why(
    url: Annotated[str, typer.Argument(metavar="URL", help="The page; https:// may be left out.")],
    store: Store = DEFAULT_STORE,
    job: Annotated[str | None, typer.Option("--job", metavar="NAME", help="In this job only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell where a URL is, and what it is waiting for."""
    from shoal.cli.targets import as_url
    from shoal.cli.terminal import ask, print_json

    typed = as_url(url)
    answers = ask(store, lambda frontier: _ask(frontier, typed, job))
    if as_json:
        print_json([as_dict(answer) for answer in answers])
    else:
        _print(answers, url.strip())


async def _ask(frontier: Frontier, typed: str, name: str | None) -> list[Answer]:
    """One answer for each job that knows the URL; if none does, one for the job that might."""
    from shoal.explain import explain
    from shoal.inquiry import chosen_jobs, inquire

    jobs = await chosen_jobs(frontier, name)
    if not jobs:
        raise UsageError("no jobs in this store yet; start one with: shoal crawl URL")
    answers = [explain(await inquire(frontier, job, typed)) for job in jobs]
    return [answer for answer in answers if answer.place != "unknown"] or answers[:1]


def as_dict(answer: Answer) -> dict[str, Any]:
    return {
        "url": answer.url,
        "job": answer.job,
        "place": answer.place,
        "answer": answer.causes[0].sentence,
        "causes": [{"name": cause.name, "sentence": cause.sentence} for cause in answer.causes],
    }


_STYLES = {"done": "green", "dead": "red", "leased": "cyan", "unknown": "magenta"}


def _print(answers: list[Answer], typed: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from shoal.cli.terminal import safe, stdout
    from shoal.observe.words import printable

    console = stdout()
    for answer in answers:
        head = safe(answer.url, "bold")
        form = "" if typed in (answer.url, answer.url.partition("://")[2]) else "canonical form · "
        console.print(Text.assemble(head, (f"  {form}job {printable(answer.job)}", "dim")))
        first, *rest = answer.causes
        console.print(Padding(safe(first.sentence, _STYLES.get(answer.place, "yellow")), (0, 0, 0, 2)))
        for cause in rest:
            console.print(Padding(safe(cause.sentence), (0, 0, 0, 2)))
