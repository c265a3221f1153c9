"""Which marked element another one lies in, for all of them in one pass: pages may nest a hundred thousand deep."""

from __future__ import annotations

from collections.abc import Container

from selectolax.lexbor import LexborNode


class Nearest:
    """The nearest marked ancestor of elements. Every element above them is visited once, whatever is asked."""

    def __init__(self, marked: Container[int]) -> None:
        self._marked = marked
        self._known: dict[int, int | None] = {}

    def above(self, node: LexborNode) -> int | None:
        """The id (`mem_id`) of the nearest marked element that `node` is in, or None."""
        passed: list[int] = []
        found: int | None = None
        parent = node.parent
        while parent is not None:
            element = parent.mem_id
            if element in self._marked:
                found = element
                break
            if element in self._known:
                found = self._known[element]
                break
            passed.append(element)
            parent = parent.parent
        for element in passed:
            self._known[element] = found
        return found
