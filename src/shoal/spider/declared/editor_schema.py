"""The JSON schema of TOML spiders, for editors: made from the model."""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.settings import Settings
from shoal.spider.declared.file_model import FileTable, SiteTable
from shoal.spider.declared.key_help import TABLES
from shoal.spider.hooks import KINDS

SCHEMA_FILE = "shoal-spider.schema.json"
_BY_NAME = ("properties", "$defs")  # their keys are names


def editor_schema() -> dict[str, Any]:
    """Draft 2020-12. Sites have the settings of docs/settings.md among their keys."""
    _, components = msgspec.json.schema_components(
        [FileTable, SiteTable, Settings], ref_template="#/$defs/{name}"
    )
    settings = components.pop("Settings")["properties"]
    for name, keys in TABLES.items():
        properties = components[name]["properties"]
        for key, said in keys.items():
            properties[key] = {**properties[key], "description": said.replace("`", "")}
    for name in ("SiteTable", "FileTable"):
        own = components[name]["properties"]
        own["hooks"]["propertyNames"] = {"enum": list(KINDS)}
        components[name]["properties"] = own | {
            key: value for key, value in settings.items() if key not in own
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Shoal spider",
        "$ref": "#/$defs/FileTable",
        "$defs": {name: _plain(one) for name, one in components.items()},
    }


def schema_text() -> str:
    """As it stands in a file."""
    return msgspec.json.format(msgspec.json.encode(editor_schema()), indent=2).decode() + "\n"


def _plain(value: Any) -> Any:
    """Without titles and defaults, which are Python's, and without null, which TOML does not have."""
    if isinstance(value, list):
        return [_plain(one) for one in value if one != {"type": "null"}]
    if not isinstance(value, dict):
        return value
    plain = {
        key: {name: _plain(one) for name, one in inner.items()} if key in _BY_NAME else _plain(inner)
        for key, inner in value.items()
        if key not in ("title", "default")
    }
    if len(several := plain.get("anyOf", ())) == 1:
        del plain["anyOf"]
        plain = several[0] | plain
    return plain
