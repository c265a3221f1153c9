"""A list of what a selector finds, shown so that a person sees what it is."""

from __future__ import annotations

from typing import Any

from selectolax.lexbor import LexborNode

from shoal.html.xml import XmlNode
from shoal.text.humanize import printable

_SHOWN = 20  # elements
_WIDTH = 110  # characters of each


class Elements(list[Any]):
    """Elements, or texts, as css() and xpath() of the shell give them."""

    def __repr__(self) -> str:
        if not self:
            return "[]  nothing matches"
        lines = [f"{number:3}  {shown(one)}" for number, one in enumerate(self[:_SHOWN])]
        if len(self) > _SHOWN:
            lines.append(f"  …  {len(self) - _SHOWN:,} more")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """For IPython, which would print a list in its own way."""
        printer.text(repr(self))


def shown(one: Any) -> str:
    """One element or text in a line: its HTML as far as it fits."""
    if isinstance(one, LexborNode | XmlNode):
        text = one.html or ""
    elif hasattr(one, "getroottree"):  # of lxml, which is optional
        from lxml import etree

        text = etree.tostring(one, encoding="unicode", with_tail=False)
    else:
        text = repr(one)
    line = " ".join(printable(text[: 4 * _WIDTH]).split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
