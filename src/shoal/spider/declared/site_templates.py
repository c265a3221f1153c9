"""What a site has from its templates and from the top of the file.

From weak to strong: the top of the file, the templates in the order in which `use` names them (what a template uses
itself comes before it), the site. Tables are put together key by key. Anything else is replaced. `false` takes a
field or a handler away. A field keeps what it is (type, required, clean …) when only its place is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shoal.spider.declared.file_model import WHERE, WITH_WHERE
from shoal.spider.declared.positions import Path
from shoal.spider.declared.validating import Problem, unknown

Table = dict[str, Any]

_OF_FILE = ("name", "site", "template", "use")  # not for its sites


def layers_of(document: Table, site: str) -> tuple[list[Path], list[Problem]]:
    """Where the parts of a site stand, from weak to strong, and what is wrong with its templates."""
    problems: list[Problem] = []
    found: list[Path] = [()]
    templates = document.get("template") or {}

    def visit(at: Path, table: Mapping[str, Any], above: tuple[str, ...]) -> None:
        for name in used(table):
            if name in above:
                loop = " → ".join([*above[above.index(name) :], name])
                problems.append(Problem((*at, "use"), f"the templates use each other in a circle: {loop}"))
            elif name not in templates:
                problems.append(Problem((*at, "use"), unknown((), name, list(templates), "template").said))
            elif ("template", name) not in found:
                visit(("template", name), templates[name], (*above, name))
                found.append(("template", name))

    visit((), {"use": document.get("use", [])}, ())
    if site:
        visit(("site", site), document["site"][site], ())
        found.append(("site", site))
    return found, problems


def used(table: Mapping[str, Any]) -> Iterator[str]:
    """The templates that a table names."""
    names = table.get("use", [])
    for name in [names] if isinstance(names, str) else names if isinstance(names, list) else ():
        if isinstance(name, str):
            yield name


def merged_site(document: Table, layers: list[Path]) -> Table:
    """One table of all layers."""
    result: Table = {}
    for path in layers:
        layer: Any = document
        for part in path:
            layer = layer[part]
        own = {key: value for key, value in layer.items() if key != "use"}
        if not path and len(layers) > 1:
            own = {key: value for key, value in own.items() if key not in _OF_FILE}
        elif not path:
            own = {key: value for key, value in own.items() if key not in ("site", "template")}
        result = _merged(result, own, ())
    return result


def _merged(weak: Table, strong: Mapping[str, Any], path: Path) -> Table:
    result = dict(weak)
    for key, value in strong.items():
        at = (*path, key)
        if _holds_fields(path):
            value = normal_field(value)
            if value is False:
                result.pop(key, None)
                continue
        elif path == ("handler",) and value is False:
            result.pop(key, None)
            continue
        before = result.get(key)
        if isinstance(value, Mapping):
            base = before if isinstance(before, dict) else {}
            if _holds_fields(path) and any(word in value for word in WHERE):
                base = {k: v for k, v in base.items() if k not in WHERE and k not in WITH_WHERE}
            result[key] = _merged(base, value, at)
        else:
            result[key] = value
    return result


def _holds_fields(path: Path) -> bool:
    """Whether the table at the path has fields by their names."""
    return len(path) >= 3 and path[0] == "handler" and path[-1] == "fields" and len(path) % 2 == 1


def normal_field(value: Any) -> Any:
    """A field in its long form: "h1" is { css = "h1" }, and a list is { any = […] }."""
    if isinstance(value, str):
        return {"css": value}
    if isinstance(value, list):
        return {"any": value}
    return value
