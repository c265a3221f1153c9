"""What may stand in a TOML spider: every key with its type. Checks, the schema for editors and docs/toml.md go by it.

A site has these keys and all settings of docs/settings.md. A name that Python would confuse with its own ends in an
underscore here; the file has it without.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from shoal.spider.hooks import HookKind

FieldType: TypeAlias = Literal[
    "str",
    "int",
    "float",
    "decimal",
    "price",
    "currency",
    "availability",
    "bool",
    "date",
    "datetime",
    "url",
    "html",
    "json",
]
PageFact: TypeAlias = Literal["url", "site", "handler", "status", "depth", "fetched_at", "text", "html"]
CleanWord: TypeAlias = Literal[
    "strip", "lower", "upper", "title", "squeeze", "digits", "unescape", "unique", "sort", "reverse", "last"
]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]


class CleanTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A cleaning step with a value: exactly one key."""

    remove: str | list[str] | None = None
    replace: Annotated[list[str], Meta(min_length=2, max_length=2)] | None = None
    before: Text | None = None
    after: Text | None = None
    split: Text | None = None
    join: str | None = None
    prefix: str | None = None
    suffix: str | None = None
    cut: Annotated[int, Meta(ge=1)] | None = None
    map: dict[str, Any] | None = None


class EachTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What is repeated on a page: exactly one key."""

    css: Text | None = None
    xpath: Text | None = None
    json: Text | None = None
    data: Text | None = None


class FieldTable(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    rename={"any_": "any", "list_": "list"},
):
    """One field of an item: where it is found, and what it is."""

    # -- where it is found
    css: Text | None = None
    xpath: Text | None = None
    json: Text | None = None
    script: Text | None = None
    data: Text | None = None
    meta: Text | None = None
    page: PageFact | None = None
    carried: Text | None = None
    like: Text | None = None
    const: Any | UnsetType = UNSET
    any_: Annotated[list[FieldLike], Meta(min_length=1)] | None = None
    attr: Text | None = None
    regex: Text | None = None
    # -- what it is
    type: FieldType | None = None
    list_: bool = False
    required: bool = False
    default: Any | UnsetType = UNSET
    clean: list[CleanWord | CleanTable] = []
    format: Text | None = None
    # -- objects
    each: Text | EachTable | None = None
    fields: dict[str, FieldLike] | None = None


FieldLike: TypeAlias = str | FieldTable | list[str | FieldTable] | bool

WHERE = ("css", "xpath", "json", "script", "data", "meta", "page", "carried", "like", "const", "any", "each")
WITH_WHERE = ("attr", "regex", "format")  # they belong to the place, and go with it when it is replaced


class FollowTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Which links are followed, and how."""

    css: Text | None = None
    xpath: Text | None = None
    json: Text | None = None
    url: Text | None = None
    include: str | list[str] = []
    exclude: str | list[str] = []
    carry: dict[str, FieldLike] = {}
    lane: Text | None = None
    priority: int | None = None


FollowLike: TypeAlias = str | FollowTable | list[str | FollowTable] | bool


class PaginateTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Numbered pages of a list."""

    param: Text
    total: int | Text | None = None
    count: Text | None = None
    per_page: Annotated[int, Meta(ge=1)] | None = None
    first: int = 1


class HandlerTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One kind of page: which pages, what is read from them, where they lead."""

    match: str | list[str] = []
    when: Text | None = None
    each: Text | EachTable | None = None
    fields: dict[str, FieldLike] = {}
    item: Text | None = None
    key: str | list[str] = []
    follow: bool | str | dict[str, FollowLike] = False
    next: Text | FollowTable | None = None
    paginate: PaginateTable | None = None
    files: str | list[str] = []
    lane: Text | None = None
    priority: int = 0
    pool: Text | None = None
    country: Text | None = None
    wait_for: Text | None = None
    revisit: Text | None = None
    function: Text | None = None


class StartTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A start URL, or a file of them, for a certain handler."""

    url: Text | None = None
    file: Text | None = None
    handler: Text | None = None


class SourceTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A sitemap or a feed, and which of its pages are wanted."""

    url: Text
    since: Text | None = None
    handler: Text | None = None


class SiteTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A site; the settings of docs/settings.md come in besides."""

    name: Text | None = None
    use: str | list[str] = []
    start: str | StartTable | list[str | StartTable] = []
    sitemap: str | SourceTable | list[str | SourceTable] = []
    feed: str | SourceTable | list[str | SourceTable] = []
    include: str | list[str] = []
    exclude: str | list[str] = []
    every: Text | None = None
    cron: Text | None = None
    hooks: dict[HookKind, str | list[str]] = {}
    handler: dict[str, HandlerTable | bool] = {}


class FileTable(SiteTable, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The whole file: one site, or several with what they share."""

    template: dict[str, SiteTable] = {}
    site: dict[str, SiteTable] = {}
