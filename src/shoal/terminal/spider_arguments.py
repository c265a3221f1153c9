"""The arguments that a spider takes, as a table: `--help-args`."""

from __future__ import annotations

import inspect

from rich.text import Text

from shoal.spider.arguments import Factory, Parameter, as_text
from shoal.spider.spider import Spider
from shoal.terminal.console import safe, stdout, table
from shoal.text import MASK


def print_arguments(found: Spider | Factory, spec: str) -> None:
    console = stdout()
    parameters = {} if isinstance(found, Spider) else found.parameters()
    if not isinstance(found, Spider) and (about := inspect.getdoc(found.function)):
        console.print(safe(about.split("\n\n")[0].replace("\n", " ")))
    if not parameters:
        console.print(safe(f"{spec} takes no arguments"))
        return
    listing = table("argument", "what", "default", "meaning")
    for one in parameters.values():
        listing.add_row(safe(one.name, "bold"), safe(one.allowed), _default(one), safe(_meaning(one)))
    console.print(listing)


def _default(one: Parameter) -> Text:
    if one.required:
        return Text("required", "yellow")
    if one.default is None:
        return Text("none", "dim")
    return safe(MASK if one.secret and one.default else as_text(one.default), "dim")


def _meaning(one: Parameter) -> str:
    if not one.secret:
        return one.text
    return f"{one.text + '; ' if one.text else ''}secret: give env:NAME or file:PATH"
