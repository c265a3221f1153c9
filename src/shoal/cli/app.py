"""The command line: which commands there are, one file for each family.

Only the command that is called is imported; commands import what they need when they run, so that `shoal --help` stays
quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from shoal import __version__
from shoal.cli import EXIT_CODES, completion

# Where each is, in this package: a function, or a family of commands.
_COMMANDS: Mapping[str, str] = {
    "init": "init.init",
    "crawl": "crawl.crawl",
    "submit": "submit.submit",
    "add": "add.add",
    "worker": "worker.worker",
    "up": "up.up",
    "coordinator": "worker.coordinator",
    "extract": "extract.extract",
    "pause": "jobs.pause",
    "resume": "jobs.resume",
    "cancel": "jobs.cancel",
    "status": "status.status",
    "top": "status.top",
    "why": "status.why",
    "dashboard": "dashboard.dashboard",
    "report": "report.report",
    "rows": "rows.rows",
    "changes": "changes.changes",
    "export": "export.export",
    "hosts": "hosts.app",
    "proxies": "proxies.app",
    "quality": "quality.app",
    "dead": "dead.app",
    "rejected": "rejected.app",
    "webhook": "webhook.app",
    "store": "store.app",
    "shell": "shell.shell",
    "fetch": "fetch.fetch",
    "try": "try_page.try_page",
    "keep": "keep.keep",
    "check": "check.check",
    "guess": "guess.guess",
    "doctor": "doctor.doctor",
    "completion": "completion.completion",
    "demo": "demo.demo",
}

# The base of every mistake in a command line; older releases of typer take it from click, newer bring their own.
_USAGE_ERROR = typer.BadParameter.__mro__[1]
Abort = typer.Abort  # what older releases make of Ctrl-C


def shoal(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"shoal {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@cache
def command_line(only: str = "") -> Any:
    """All commands with their options; if there is one of the name `only`, that one. To import and build them all takes
    as long as a small command takes."""
    completion.prepare()
    if only and only not in _COMMANDS:
        return command_line()
    app = typer.Typer(
        name="shoal",
        help="Crawl many sites at once, politely, and lose nothing.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
    )
    app.callback(invoke_without_command=True)(shoal)
    for name in [only] if only else _COMMANDS:
        module, _, what = _COMMANDS[name].partition(".")
        found = getattr(import_module(f"shoal.cli.{module}"), what)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return typer.main.get_command(app)


def usage_mistake(error: Exception) -> str | None:
    """What is wrong with the command line, in one sentence; None if the error is of another sort."""
    if not isinstance(error, _USAGE_ERROR):
        return None
    from shoal.cli.suggestions import better_message

    context = getattr(error, "ctx", None)
    command = context.command_path if context else "shoal"
    message = str(getattr(error, "format_message")()).rstrip(".")  # noqa: B009
    message = better_message(error, message)
    return f"{message}{'' if message.endswith('?') else ';'} see {command} --help"
