"""For the API reference: the comment behind a field says what it is, so it becomes the field's docstring."""

from __future__ import annotations

import linecache
import re
from typing import Any

from griffe import Attribute, Docstring, Extension

_COMMENT = re.compile(r"  # (?!type:|noqa)(.+)$")


class FieldComments(Extension):
    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        if (
            attr.docstring is not None
            or attr.endlineno is None
            or attr.parent is None
            or not attr.parent.is_class
        ):
            return
        found = _COMMENT.search(linecache.getline(str(attr.filepath), attr.endlineno))
        if found is not None:
            text = found[1].strip()
            attr.docstring = Docstring(text[0].upper() + text[1:], lineno=attr.endlineno, parent=attr)
