"""What a mistyped command or option was meant to be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from shoal.settings import Settings

_NO_COMMAND = re.compile(r"No such command '(.*?)'(?:\. Did you mean .*)?", re.DOTALL)
_TARGET = re.compile(r"https?:.*|.*\.py(:\w+)?|[^\s/]+\.[a-z]{2,}(:\d+)?(/.*)?", re.IGNORECASE | re.DOTALL)

# What other tools, and people, call these commands.
OTHER_WORDS: Mapping[str, str] = {
    "bench": "demo",
    "debug": "try",
    "download": "fetch",
    "edit": "init",
    "generate": "init",
    "genspider": "init --spider",
    "get": "fetch",
    "health": "doctor",
    "help": "--help",
    "info": "doctor",
    "items": "rows",
    "job": "status",
    "jobs": "status",
    "kill": "cancel",
    "lint": "check",
    "list": "status",
    "ls": "status",
    "monitor": "top",
    "new": "init",
    "parse": "try",
    "ps": "status",
    "results": "rows",
    "retry": "dead replay",
    "run": "crawl",
    "runspider": "crawl",
    "save": "keep",
    "schedule": "submit --every",
    "scrape": "crawl",
    "serve": "dashboard",
    "start": "crawl",
    "startproject": "init",
    "stop": "pause",
    "tail": "rows",
    "test": "try",
    "ui": "dashboard",
    "validate": "check",
    "version": "--version",
    "view": "shell",
    "watch": "top",
    "web": "dashboard",
    "workers": "status",
}


def better_message(error: Exception, message: str) -> str:
    """The message of a wrong command line, with what was probably meant instead of typer's guesses."""
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    option = getattr(error, "option_name", None)
    if hasattr(error, "possibilities") and isinstance(option, str):
        return _with(f"No such option: {option}", _option_meant(option, context))
    if found := _NO_COMMAND.fullmatch(message.rstrip("?")):
        root = context.find_root().command
        meant = _command_meant(
            found[1], context.command, context.command_path, is_root=context.command is root
        )
        return _with(f"No such command '{found[1]}'", meant)
    return message


def _with(message: str, meant: str) -> str:
    return f"{message}; did you mean {meant}?" if meant else message


def _option_meant(given: str, context: Any) -> str:
    parameters = context.command.params
    names = [name for parameter in parameters for name in parameter.opts if name.startswith("--")]
    given = given.partition("=")[0].replace("_", "-")
    words = [parameter.metavar for parameter in parameters if parameter.param_type_name == "argument"]
    if (word := given.lstrip("-").upper()) in words:  # without an option's name
        return f"{context.command_path} {word}"
    setting = given.lstrip("-").replace("-", "_")
    if given in names:
        return given
    if setting in Settings.__struct_fields__ and "--set" in names:
        return f"-s {setting}=…"
    return _closest(given.lower(), names, 0.7)


def _command_meant(word: str, family: Any, path: str, *, is_root: bool) -> str:
    names: dict[str, Any] = family.commands
    if is_root and _TARGET.fullmatch(word):
        return f"{path} crawl {word}"
    lower = word.lower()
    other = OTHER_WORDS.get(lower, "") if is_root else ""
    if other.startswith("--") or other.partition(" ")[0] in names:
        return f"{path} {other}"
    if close := _closest(lower, names, 0.6):
        return f"{path} {close}"
    inside = dict(reversed([*_inside(names)])) if is_root else {}  # of two, the first
    close = _closest(lower, inside, 0.8)
    return f"{path} {inside[close]}" if close else ""


def _inside(names: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The commands of families by their own name, as in block: hosts block."""
    for family, command in names.items():
        for name in getattr(command, "commands", {}):
            yield name, f"{family} {name}"


def _closest(word: str, words: Iterable[str], cutoff: float) -> str:
    return next(iter(get_close_matches(word, list(words), 1, cutoff)), "")
