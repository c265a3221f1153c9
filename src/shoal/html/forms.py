"""Forms: what a browser sends when a form is filled in and submitted (WHATWG HTML, "form submission")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

import ada_url
import webencodings  # type: ignore[import-untyped]
from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.html.decoding import UTF8, codec_for
from shoal.html.page_links import in_bytes, is_legacy

FieldValue: TypeAlias = str | int | float | bool | Sequence[str] | None
Entry: TypeAlias = tuple[str, str]

_URLENCODED, _MULTIPART, _PLAIN = "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"
_CONTROLS = frozenset({"button", "input", "select", "textarea"})
_BUTTONS = frozenset({"submit", "image"})  # types that submit a form
_NO_ENTRY = frozenset({"button", "reset"})
_TABLE_PARTS = frozenset({"table", "thead", "tbody", "tfoot", "tr"})
_NEWLINES = re.compile(r"\r\n|\r|\n")
_UNESCAPED = frozenset(b"*-._0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_ESCAPES = [
    "+" if byte == 0x20 else chr(byte) if byte in _UNESCAPED else f"%{byte:02X}" for byte in range(256)
]


class Submission(Struct, frozen=True):
    """The request that a form makes."""

    method: str
    url: str
    body: bytes | None = None
    content_type: str = ""


class FormError(ValueError):
    """The form cannot be submitted that way."""


def submit(
    tree: LexborHTMLParser,
    element: LexborNode,
    fields: Mapping[str, FieldValue],
    *,
    click: LexborNode | bool = True,
    url: str,
    base: str,
    codec: str,
) -> Submission:
    """What submitting a form sends. `element` is the form, or anything inside of it.

    `fields` are values by name, over those of the page: a text or number, a list for several values, True or False for
    a checkbox, None to leave the field out. Names that the form lacks are added, as scripts of the page would do.
    `click` is the button that submits it; True: its first one, as the Enter key does; False: none.
    """
    form = _form_of(tree, element)
    controls = _controls(tree, form)
    button = _button(controls, click)
    entries = _fill(_entries(controls, button), controls, fields)
    codec = _codec_of(form, codec)
    entries = [
        (name, _charset_name(codec) if name.lower() == "_charset_" else value) for name, value in entries
    ]

    def said(name: str, by_default: str = "") -> str:
        """What the button says of the submission, else the form."""
        value = button.attributes.get("form" + name) if button is not None else None
        return by_default if value is None and (value := form.attributes.get(name)) is None else value or ""

    try:
        target = ada_url.join_url(base, said("action")) if said("action").strip() else url
    except ValueError:
        raise FormError(f"the form's action is not a URL: {said('action')[:200]!r}") from None
    if said("method").strip().lower() != "post":
        head = target.partition("#")[0].partition("?")[0]
        return Submission("GET", f"{head}?{_urlencoded(entries, codec)}")
    kind = said("enctype").strip().lower()
    if kind == _MULTIPART:
        return _multipart(target, entries, codec, _files(controls))
    if kind == _PLAIN:
        body = b"".join(
            in_bytes(f"{_with_newlines(name)}={_with_newlines(value)}\r\n", codec) for name, value in entries
        )
        return Submission("POST", target, body, _PLAIN)
    return Submission("POST", target, _urlencoded(entries, codec).encode(), _URLENCODED)


# -- Which controls a form has


def _form_of(tree: LexborHTMLParser, element: LexborNode) -> LexborNode:
    node: LexborNode | None = element
    while node is not None and node.tag != "form":
        node = node.parent
    owner = element.attributes.get("form")
    if owner:
        node = next((form for form in tree.tags("form") if form.attributes.get("id") == owner), node)
    if node is None:
        raise FormError(f"<{element.tag}> is not a form, nor inside of one")
    return node


def _controls(tree: LexborHTMLParser, form: LexborNode) -> list[LexborNode]:
    """The enabled controls of the form, in the order of the document: those inside it, and those that name it."""
    ident = form.attributes.get("id")
    inside = {node.mem_id for node in form.traverse() if node.tag in _CONTROLS}
    if not inside and form.child is None:
        inside = set(_in_table(form))
    controls = []
    for node in _enabled(tree.root) if tree.root is not None else ():
        if node.tag in _CONTROLS and "disabled" not in node.attributes:
            owner = node.attributes.get("form")
            if (owner == ident) if owner else node.mem_id in inside:
                controls.append(node)
    return controls


def _in_table(form: LexborNode) -> Iterator[int]:
    """A form between the rows of a table is empty for the parser, but owns what follows in the table."""
    table = form.parent
    while table is not None and table.tag in _TABLE_PARTS and table.tag != "table":
        table = table.parent
    if table is None or table.tag != "table":
        return
    begun = False
    for node in table.traverse():
        if node.tag == "form":
            if begun:
                return
            begun = node.mem_id == form.mem_id
        elif begun and node.tag in _CONTROLS:
            yield node.mem_id


def _button(controls: Sequence[LexborNode], click: LexborNode | bool) -> LexborNode | None:
    if click is False:
        return None
    buttons = [node for node in controls if _is_button(node)]
    if click is True:
        return next(iter(buttons), None)
    if not any(node.mem_id == click.mem_id for node in buttons):
        raise FormError(f"<{click.tag}> is not a submit button of this form that can be pressed")
    return click


def _type(node: LexborNode) -> str:
    given = (node.attributes.get("type") or "").strip().lower()
    if node.tag == "button":
        return given if given in _NO_ENTRY else "submit"
    return (given or "text") if node.tag == "input" else node.tag or ""


def _is_button(node: LexborNode) -> bool:
    return node.tag in ("button", "input") and _type(node) in _BUTTONS


def _enabled(root: LexborNode) -> Iterator[LexborNode]:
    """The elements in the order of the document, without what a disabled fieldset disables: all but its legend."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        children = list(node.iter())
        if node.tag == "fieldset" and "disabled" in node.attributes:
            children = [child for child in children if child.tag == "legend"][:1]
        stack += reversed(children)


# -- What they send


class _Entry(Struct):
    name: str
    value: str
    control: LexborNode | None = None


def _entries(controls: Sequence[LexborNode], button: LexborNode | None) -> list[_Entry]:
    """As the page has them."""
    entries: list[_Entry] = []
    directions: dict[int, str] = {}
    for node in controls:
        name, kind = node.attributes.get("name") or "", _type(node)
        if _is_button(node):
            if button is None or node.mem_id != button.mem_id:
                continue
            if kind == "image":
                dot = f"{name}." if name else ""
                entries += (_Entry(f"{dot}x", "0", node), _Entry(f"{dot}y", "0", node))
            elif name:
                entries.append(_Entry(name, node.attributes.get("value") or "", node))
            continue
        if not name or kind in _NO_ENTRY:
            continue
        entries += [_Entry(name, value, node) for value in _values(node, kind)]
        direction = node.attributes.get("dirname")
        if direction and kind in ("text", "search", "textarea", "tel", "url", "email", "hidden", "password"):
            entries.append(_Entry(direction, _direction(node, directions), node))
    return entries


def _direction(node: LexborNode, known: dict[int, str]) -> str:
    """What the nearest `dir` says. `known` has it for ancestors that were looked at, since pages nest deeply."""
    passed: list[int] = []
    at: LexborNode | None = node
    found = ""
    while at is not None and not (found := known.get(at.mem_id, "")):
        passed.append(at.mem_id)
        said = (at.attributes.get("dir") or "").lower()
        if said in ("ltr", "rtl"):
            found = said
            break
        at = at.parent
    found = found or "ltr"
    known.update(dict.fromkeys(passed, found))
    return found


def _values(node: LexborNode, kind: str) -> list[str]:
    attributes = node.attributes
    if kind in ("checkbox", "radio"):
        return [_checked_value(node)] if "checked" in attributes else []
    if kind == "select":
        return _selected(node)
    if kind == "textarea":
        return [node.text(deep=True)]
    if kind == "file":
        return [""]
    value = attributes.get("value") or ""
    return [value if kind == "hidden" else _NEWLINES.sub("", value)]


def _checked_value(node: LexborNode) -> str:
    value = node.attributes.get("value")
    return "on" if value is None and "value" not in node.attributes else value or ""


def _selected(select: LexborNode) -> list[str]:
    options = select.css("option")
    chosen = [option for option in options if "selected" in option.attributes]
    if "multiple" not in select.attributes:
        if not chosen and (select.attributes.get("size") or "1").strip() in ("", "0", "1"):
            chosen = [option for option in options if not _is_off(option)][:1]
        chosen = chosen[-1:]
    return [_option_value(option) for option in chosen if not _is_off(option)]


def _is_off(option: LexborNode) -> bool:
    group = option.parent
    return "disabled" in option.attributes or (
        group is not None and group.tag == "optgroup" and "disabled" in group.attributes
    )


def _option_value(option: LexborNode) -> str:
    if "value" in option.attributes:
        return option.attributes.get("value") or ""
    return " ".join(option.text(deep=True).split())


def _fill(
    entries: Sequence[_Entry], controls: Sequence[LexborNode], fields: Mapping[str, FieldValue]
) -> list[Entry]:
    """The entries with the given values in their places, and those without a place at the end."""
    filled: list[Entry] = []
    done: set[str] = set()
    for entry in entries:
        if entry.name not in fields:
            filled.append((entry.name, entry.value))
        elif entry.name not in done:
            done.add(entry.name)
            filled += _given(entry.name, fields[entry.name], controls)
    for name, value in fields.items():
        if name not in done:
            filled += _given(name, value, controls)
    return filled


def _given(name: str, value: FieldValue, controls: Sequence[LexborNode]) -> list[Entry]:
    if value is None or value is False:
        return []
    if value is True:
        box = next((node for node in controls if node.attributes.get("name") == name), None)
        return [(name, _checked_value(box) if box is not None else "on")]
    if isinstance(value, str | int | float):
        return [(name, str(value))]
    if isinstance(value, list | tuple):
        return [(name, str(one)) for one in value]
    raise FormError(
        f"the value of field {name!r} is a {type(value).__name__}; give a text, a number or a list"
    )


def _files(controls: Sequence[LexborNode]) -> frozenset[str]:
    return frozenset(node.attributes.get("name") or "" for node in controls if _type(node) == "file")


# -- How it is written


def _codec_of(form: LexborNode, codec: str) -> str:
    for label in (form.attributes.get("accept-charset") or "").split():
        encoding = webencodings.lookup(label)
        if encoding is not None:
            codec = codec_for(encoding.name)
            break
    return codec if is_legacy(codec) else UTF8


def _charset_name(codec: str) -> str:
    known = webencodings.lookup(codec)
    return "UTF-8" if codec == UTF8 else known.name if known is not None else codec


def _with_newlines(text: str) -> str:
    return _NEWLINES.sub("\r\n", text)


def _urlencoded(entries: Sequence[Entry], codec: str) -> str:
    def escaped(text: str) -> str:
        return "".join([_ESCAPES[byte] for byte in in_bytes(_with_newlines(text), codec)])

    return "&".join(f"{escaped(name)}={escaped(value)}" for name, value in entries)


def _multipart(url: str, entries: Sequence[Entry], codec: str, files: frozenset[str]) -> Submission:
    parts = []
    for name, value in entries:
        shown = in_bytes(_with_newlines(name), codec)
        shown = shown.replace(b"\r", b"%0D").replace(b"\n", b"%0A").replace(b'"', b"%22")
        head = b'Content-Disposition: form-data; name="' + shown + b'"'
        if name in files and not value:
            head += b'; filename=""\r\nContent-Type: application/octet-stream'
        parts.append(head + b"\r\n\r\n" + in_bytes(_with_newlines(value), codec) + b"\r\n")
    # From what is sent, so that the same form is the same request; it must not occur in a part.
    boundary = b"----shoal" + blake2b(b"\0".join(parts), digest_size=16).hexdigest().encode()
    body = b"".join(b"--" + boundary + b"\r\n" + part for part in parts) + b"--" + boundary + b"--\r\n"
    return Submission("POST", url, body, f"{_MULTIPART}; boundary={boundary.decode()}")
