"""The JSON schema for editors says what the check says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from shoal.settings import Settings
from shoal.spider.declared import file_model, key_help
from shoal.spider.declared.editor_schema import SCHEMA_FILE, editor_schema, schema_text
from shoal.spider.declared.validating import file_problems

ROOT = Path(__file__).parents[2]
SCHEMA = editor_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_file_in_the_docs_is_up_to_date() -> None:
    """`shoal check --schema > docs/shoal-spider.schema.json`"""
    assert (ROOT / "docs" / SCHEMA_FILE).read_text("utf-8") == schema_text()


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.name)
def test_the_examples_keep_to_it(path: Path) -> None:
    document = tomllib.loads(path.read_text("utf-8"))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize("name", sorted(key_help.TABLES))
def test_every_key_is_explained(name: str) -> None:
    fields = msgspec.structs.fields(getattr(file_model, name))
    assert list(key_help.TABLES[name]) == [field.encode_name for field in fields]


def test_every_setting_is_a_key_of_a_site() -> None:
    for name in ("SiteTable", "FileTable"):
        assert set(Settings.__struct_fields__) <= set(SCHEMA["$defs"][name]["properties"])


@pytest.mark.parametrize(
    "document",
    [
        {"start": "https://a.example/", "handler": {"x": {"fields": {"a": "h1"}}}},
        {"start": 5},
        {"rate": "fast"},
        {"rate": 2, "rat": 2},
        {"handler": {"x": {"fields": {"a": {"cs": "b"}}}}},
        {"handler": {"x": {"fields": {"a": {"type": "prise"}}}}},
        {"handler": {"x": {"fields": {"a": ["b", {"css": "c", "list": True}]}}}},
        {"handler": {"x": {"fields": {"a": ["b", 5]}}}},
        {"handler": {"x": {"fields": {"a": {"clean": ["lower", {"cut": 3}]}}}}},
        {"handler": {"x": {"fields": {"a": {"clean": ["lover"]}}}}},
        {"handler": {"x": {"fields": {"a": {"clean": [{"replace": ["a"]}]}}}}},
        {"handler": {"x": {"follow": {"y": {"css": "a", "include": ["/b/*"]}}, "next": "c"}}},
        {"handler": {"x": {"follow": 3}}},
        {"handler": {"x": {"paginate": {"total": 3}}}},
        {"handler": {"x": {"paginate": {"param": "p", "total": 3}}}},
        {"handler": {"x": False}},
        {"site": {"a": {"use": "b", "rate": 1, "depth": 2}}, "template": {"b": {"hosts": ["c"]}}},
        {"site": {"a": {"template": {}}}},
        {"hooks": {"on_item": "a:b"}},
        {"hooks": {"on_thing": "a:b"}},
        {"handler": {"x": {"each": {"json": "a"}, "fields": {}}}},
        {"handler": {"x": {"each": ""}}},
    ],
)
def test_schema_and_check_agree(document: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(document) == (not list(file_problems(document)))
