"""`shoal why`: why a URL has (not) been fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import DEFAULT_STORE, AsJson, Store

if TYPE_CHECKING:
    from shoal.inspect.why import Answer


def why(
    url: Annotated[str, typer.Argument(metavar="URL", help="The page; https:// may be left out.")],
    store: Store = DEFAULT_STORE,
    job: Annotated[str | None, typer.Option("--job", metavar="NAME", help="In this job only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell where a URL is, and what it is waiting for."""
    from shoal.cli.targets import as_url
    from shoal.inspect.json_form import answer_dict
    from shoal.inspect.why import answers_about
    from shoal.terminal.console import ask, print_json

    typed = as_url(url)
    answers = ask(store, lambda frontier: answers_about(frontier, typed, job))
    if as_json:
        print_json([answer_dict(answer) for answer in answers])
    else:
        _print(answers, url.strip())


_STYLES = {"done": "green", "merged": "green", "dead": "red", "leased": "cyan", "unknown": "magenta"}


def _print(answers: list[Answer], typed: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from shoal.humanize import printable
    from shoal.terminal.console import safe, stdout

    console = stdout()
    for answer in answers:
        head = safe(answer.url, "bold")
        form = "" if typed in (answer.url, answer.url.partition("://")[2]) else "as it is sent · "
        console.print(Text.assemble(head, (f"  {form}job {printable(answer.job)}", "dim")))
        first, *rest = answer.causes
        console.print(Padding(safe(first.sentence, _STYLES.get(answer.place, "yellow")), (0, 0, 0, 2)))
        for cause in rest:
            console.print(Padding(safe(cause.sentence), (0, 0, 0, 2)))
