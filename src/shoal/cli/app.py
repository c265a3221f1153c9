"""The command line: which commands there are, one file for each family.

Commands import what they need when they run, so that `shoal --help` stays quick.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Annotated, Any

import typer

from shoal import __version__
from shoal.cli import (
    EXIT_CODES,
    add,
    changes,
    check,
    completion,
    crawl,
    dashboard,
    dead,
    demo,
    doctor,
    export,
    extract,
    fetch,
    guess,
    hosts,
    init,
    jobs,
    keep,
    proxies,
    quality,
    rejected,
    report,
    rows,
    shell,
    status,
    store,
    submit,
    try_page,
    up,
    webhook,
    worker,
)
from shoal.cli.suggestions import better_message

app = typer.Typer(
    name="shoal",
    help="Crawl many sites at once, politely, and lose nothing.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
)

# The base of every mistake in a command line; older releases of typer take it from click, newer bring their own.
_USAGE_ERROR = typer.BadParameter.__mro__[1]
Abort = typer.Abort  # what older releases make of Ctrl-C


@app.callback(invoke_without_command=True)
def shoal(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"shoal {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("init")(init.init)
app.command("crawl")(crawl.crawl)
app.command("submit")(submit.submit)
app.command("add")(add.add)
app.command("worker")(worker.worker)
app.command("up")(up.up)
app.command("coordinator")(worker.coordinator)
app.command("extract")(extract.extract)
app.command("pause")(jobs.pause)
app.command("resume")(jobs.resume)
app.command("cancel")(jobs.cancel)
app.command("status")(status.status)
app.command("top")(status.top)
app.command("why")(status.why)
app.command("dashboard")(dashboard.dashboard)
app.command("report")(report.report)
app.command("rows")(rows.rows)
app.command("changes")(changes.changes)
app.command("export")(export.export)
app.add_typer(hosts.app, name="hosts")
app.add_typer(proxies.app, name="proxies")
app.add_typer(quality.app, name="quality")
app.add_typer(dead.app, name="dead")
app.add_typer(rejected.app, name="rejected")
app.add_typer(webhook.app, name="webhook")
app.add_typer(store.app, name="store")
app.command("shell")(shell.shell)
app.command("fetch")(fetch.fetch)
app.command("try")(try_page.try_page)
app.command("keep")(keep.keep)
app.command("check")(check.check)
app.command("guess")(guess.guess)
app.command("doctor")(doctor.doctor)
app.command("completion")(completion.completion)
app.command("demo")(demo.demo)


@cache
def command_line(only: str = "") -> Any:
    """All commands with their options; if there is one of the name `only`, that one. To build them all takes typer as
    long as a small command takes."""
    completion.prepare()
    one = copy(app)
    one.registered_commands = [command for command in app.registered_commands if command.name == only]
    one.registered_groups = [group for group in app.registered_groups if group.name == only]
    if one.registered_commands or one.registered_groups:
        return typer.main.get_command(one)
    return typer.main.get_command(app) if not only else command_line()


def usage_mistake(error: Exception) -> str | None:
    """What is wrong with the command line, in one sentence; None if the error is of another sort."""
    if not isinstance(error, _USAGE_ERROR):
        return None
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "shoal"
    message = str(getattr(error, "format_message")()).rstrip(".")  # noqa: B009
    message = better_message(error, message)
    return f"{message}{'' if message.endswith('?') else ';'} see {command} --help"
