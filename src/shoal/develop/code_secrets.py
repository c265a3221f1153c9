"""Secrets in code and in settings files: passwords, keys and tokens that would end up in a repository.

What is found is told by its place and its kind. The value is never shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

EXEMPT = "# not a secret"  # at the end of a line that only looks like it has one

# Every repetition is bounded, so that all take linear time.
_KINDS: Mapping[str, re.Pattern[str]] = {
    "a password in a URL": re.compile(
        r"[a-z][a-z0-9+.-]{0,20}://[^/\s:@]{0,200}:(?![{$<])[^/\s@{]{1,200}@", re.I
    ),
    "a private key": re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"),
    "credentials of a request": re.compile(r"(?:Bearer|Basic) [A-Za-z0-9+/=._~-]{8}"),
    "an AWS key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30}|github_pat_[A-Za-z0-9_]{30})"),
    "a Google key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a Stripe key": re.compile(r"\b[rs]k_live_[0-9A-Za-z]{16}"),
    "a Slack token": re.compile(r"\bxox[abeoprs]-[0-9A-Za-z-]{10}"),
    "a JSON Web Token": re.compile(r"\beyJ[\w-]{10,2000}\.eyJ[\w-]{10}"),
}
_NAMED = re.compile(
    r"(?:^|[_\W])(password|passwd|pwd|passphrase|secret|token|(?:api|access|secret|private|session)[_-]?key"
    r"|authorization|cookie|sessionid|phpsessid|jsessionid|sid)$",
    re.I,
)
_WITH_BLANKS = ("authorization", "cookie")
_ELSEWHERE = ("env:", "file:", "$", "<", "{")  # it is somewhere else, or is put in later
_LONGEST = 100_000  # characters of a text that are looked at


class Secret(Struct, frozen=True):
    kind: str  # "a password in a URL", "a value for password"
    line: int = 0
    key: str = ""  # of a settings file


def secrets_in_code(tree: ast.Module, text: str) -> list[Secret]:
    """Secrets among the texts of a Python file; docstrings are not looked at."""
    lines = text.splitlines()
    found: dict[int, Secret] = {}
    for secret in _in_tree(tree):
        found.setdefault(secret.line, secret)
    return [found[line] for line in sorted(found) if EXEMPT not in _line(lines, line)]


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _in_tree(tree: ast.Module) -> Iterator[Secret]:
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in docs and (kind := kind_of_secret(_text(node))):
            yield Secret(kind, getattr(node, "lineno", 0))
        for name, value in _named_values(node):
            if is_named(name, _text(value)):
                yield Secret(f"a value for {name}", value.lineno)


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _named_values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and what is given to them: variables, keywords, entries of a dict, defaults of variables of the
    environment, user and password."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((_name(target), value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield _name(target), value
        case ast.keyword(arg="auth", value=ast.Tuple(elts=[_, password])):
            yield "password", password
        case ast.keyword(arg=str(name), value=value):
            yield name, value
        case ast.Call(
            func=ast.Attribute(attr="get" | "getenv"),
            args=[ast.Constant(value=str(name)), ast.Constant() as value],
        ):
            yield name, value
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value


def _name(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
    return ""


def secrets_in_settings(table: Mapping[str, object], path: str = "") -> Iterator[Secret]:
    """Secrets in a settings file, by the path of their keys."""
    for name, value in table.items():
        key = f"{path}.{name}" if path else str(name)
        values = value if isinstance(value, list) else [value]
        for one in values:
            if isinstance(one, dict):
                yield from secrets_in_settings(one, key)
            elif isinstance(one, str):
                kind = kind_of_secret(one) or (f"a value for {name}" if is_named(str(name), one) else "")
                if kind:
                    yield Secret(kind, key=key)


def kind_of_secret(text: str) -> str:
    """What kind of secret is in a text, by its form; "": none."""
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(text[:_LONGEST])), "")


def is_named(name: str, value: str) -> bool:
    """Whether the value of something with that name is a secret."""
    found = _NAMED.search(name)
    if found is None or len(value) < 3 or value.startswith(_ELSEWHERE) or not value.isprintable():
        return False
    word = found[1].lower()
    if re.sub("[_-]", "", word) in re.sub("[_-]", "", value.lower()):
        return False  # the name of a field: token="csrf_token"
    if word in _WITH_BLANKS:
        return "{" not in value
    return not re.search(r"[\s\[\]{}<>()]", value)  # a sentence or a selector
