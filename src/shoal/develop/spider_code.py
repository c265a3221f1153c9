"""What the code of a spider names, as its text shows: handlers, selectors, and the fields of items."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Kind: TypeAlias = Literal["css", "xpath"]

# Methods of a page that take a selector: where it stands, and its name as a keyword.
_OF_PAGE: Mapping[str, tuple[int, str]] = {
    "css": (0, "selector"),
    "first": (0, "selector"),
    "text": (0, "selector"),
    "texts": (0, "selector"),
    "attr": (0, "selector"),
    "attrs": (0, "selector"),
    "links": (0, "selector"),
    "re": (1, "selector"),
    "submit_form": (0, "selector"),
    "follow_all": (0, "targets"),
    "paginate": (0, "next"),
}
_ALSO = {"paginate": ("total", "count"), "submit_form": ("click",)}
_OF_ELEMENTS = ("css", "css_first")  # methods of what a selector finds
# Calls that take a handler, and where it stands.
_HANDLER_AT = {"follow": 1, "follow_all": 1, "paginate": 1, "submit_form": 2, "Request": 1}
_OTHER_SELECTORS = {"parsel", "scrapy"}  # packages with a `css` of their own, which takes ::text


class HandlerUse(Struct, frozen=True):
    """A handler that is named for a request."""

    line: int
    within: int  # the first line of the function around it; 0: none
    text: str = ""  # the handler's name
    variable: str = ""  # or the function's


class SelectorUse(Struct, frozen=True):
    line: int
    kind: Kind
    text: str


class ItemUse(Struct, frozen=True):
    """An item that is written as a dict in the code of a handler, or what looks like one elsewhere."""

    line: int
    within: int  # the first line of the innermost function around it
    fields: tuple[str, ...]


class Code(Struct, frozen=True):
    """One file."""

    path: Path
    tree: ast.Module
    handlers: tuple[HandlerUse, ...] = ()
    selectors: tuple[SelectorUse, ...] = ()
    items: tuple[ItemUse, ...] = ()
    is_open: bool = False  # a handler is named by something that is known at run time only


def read_code(path: Path) -> Code | None:
    """What a file names; None: it cannot be read, is no Python, or is nested too deeply."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
        reader = _Reader(tree)
        reader.visit(tree)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return Code(
        path, tree, tuple(reader.handlers), tuple(reader.selectors), tuple(reader.items), reader.is_open
    )


def first_line(function: Function) -> int:
    """The line of its first decorator, as in the function's code object."""
    return min([function.lineno, *(one.lineno for one in function.decorator_list)])


class _Reader(ast.NodeVisitor):
    def __init__(self, tree: ast.Module) -> None:
        self.handlers: list[HandlerUse] = []
        self.selectors: list[SelectorUse] = []
        self.items: list[ItemUse] = []
        self.is_open = False
        self._within = 0
        self._function = 0
        self._texts = dict(_constants(tree))
        self._pages = {"page", *_first_parameters(tree)}
        self._foreign = bool(_OTHER_SELECTORS & set(_imported(tree)))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._inside(node)

    def _inside(self, node: Function) -> None:
        before = self._within, self._function
        self._function = first_line(node)
        # A function inside a handler is part of it; a handler inside a function, which makes the spider, is not.
        if not before or any(map(_is_handler, node.decorator_list)):
            self._within = self._function
        self.generic_visit(node)
        self._within, self._function = before

    def visit_Yield(self, node: ast.Yield) -> None:
        self._item(node.value)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        for value in node.value.elts if isinstance(node.value, ast.List) else [node.value]:
            self._item(value)
        self.generic_visit(node)

    def _item(self, value: ast.expr | None) -> None:
        if not isinstance(value, ast.Dict):
            return
        names = [
            key.value for key in value.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
        ]
        if len(names) == len(value.keys):
            self.items.append(ItemUse(value.lineno, self._function, tuple(names)))

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in _HANDLER_AT:
            self._handler(node, _HANDLER_AT[name])
        if isinstance(function, ast.Attribute):
            self._selectors(node, name, function.value)
        self.generic_visit(node)

    def _handler(self, call: ast.Call, at: int) -> None:
        given = _argument(call, at, "handler")
        if any(isinstance(one, ast.Starred) for one in call.args) or any(
            one.arg is None for one in call.keywords
        ):
            self.is_open = True
        match given:
            case None | ast.Constant(value=None):
                return
            case ast.Constant(value=str(text)):
                self.handlers.append(HandlerUse(call.lineno, self._within, text=text))
            case ast.Name(id=variable):
                self.handlers.append(HandlerUse(call.lineno, self._within, variable=variable))
                self.is_open |= variable in self._texts
            case _:
                self.is_open = True

    def _selectors(self, call: ast.Call, method: str, of: ast.expr) -> None:
        is_page = isinstance(of, ast.Name) and of.id in self._pages
        if method == "xpath":
            self._selector(call, "xpath", _argument(call, 0, "expression"))
        elif is_page and method in _OF_PAGE:
            self._selector(call, "css", _argument(call, *_OF_PAGE[method]))
            for keyword in _ALSO.get(method, ()):
                self._selector(call, "css", _argument(call, len(call.args), keyword))
        elif method in _OF_ELEMENTS and not self._foreign:
            self._selector(call, "css", _argument(call, 0, "query"))

    def _selector(self, call: ast.Call, kind: Kind, given: ast.expr | None) -> None:
        match given:
            case ast.Constant(value=str(text)):
                self.selectors.append(SelectorUse(given.lineno, kind, text))
            case ast.Name(id=name) if name in self._texts:
                self.selectors.append(SelectorUse(call.lineno, kind, self._texts[name]))


def _argument(call: ast.Call, at: int, keyword: str) -> ast.expr | None:
    if at < len(call.args) and not any(isinstance(one, ast.Starred) for one in call.args[: at + 1]):
        return call.args[at]
    return next((one.value for one in call.keywords if one.arg == keyword), None)


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names that the file gives a text, as in `TITLE = "h1"`."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text


def _first_parameters(tree: ast.Module) -> Iterator[str]:
    """What handlers call their page."""
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.args.args and any(map(_is_handler, node.decorator_list)):
            yield node.args.args[0].arg


def _is_handler(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Attribute) and called.attr == "handler"


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
