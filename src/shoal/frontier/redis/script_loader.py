"""Loads the scripts, one for each verb. A script names its parts in `-- uses`, and gets the names of the keys it uses.

A part may name in `-- gives` what later parts can use; its other names are local. Lua allows 200 local names at once.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from shoal.frontier.redis.keys import LAYOUT, NAMES
from shoal.frontier.redis.link import Script

_FOLDER = files("shoal.frontier.redis") / "scripts"
_COMMENT = re.compile(r"^\s*--.*\n|\s+--[^'\n]*$", re.MULTILINE)


@cache
def script(name: str) -> Script:
    text = (_FOLDER / f"{name}.lua").read_text("utf-8")
    uses = re.search(r"^-- uses +(.+)$", text, re.MULTILINE)
    assert uses is not None, f"{name}.lua does not say what it uses"
    parts = [_part((_FOLDER / "parts" / f"{part}.lua").read_text("utf-8")) for part in uses[1].split()]
    code = _COMMENT.sub("", "\n".join([*parts, text]))
    return Script(name, _keys(code) + code)


def _part(text: str) -> str:
    gives = re.search(r"^-- gives +(.+)$", text, re.MULTILINE)
    return f"local {', '.join(gives[1].split())}\ndo\n{text}\nend" if gives else text


def _keys(code: str) -> str:
    used = set(re.findall(r"\b[A-Z]+\b", code))
    keys = [
        f"local {constant} = KEYS[1] .. ':{name}'\n" for constant, name in NAMES.items() if constant in used
    ]
    return f"local LAYOUT = '{LAYOUT}'\n" + "".join(keys)
