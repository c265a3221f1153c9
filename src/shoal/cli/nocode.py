"""Options of a crawl without code: which fields its rows have, and what is extracted instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, get_args

from msgspec.structs import replace

from shoal.cli.options import option, switch
from shoal.errors import UsageError
from shoal.settings import ExtractKind, RowField

if TYPE_CHECKING:
    from shoal.spider.loading import SpiderSource

ROWS = "Without code"

Row = Annotated[
    list[str] | None,
    option(
        "--row",
        value="FIELD,FIELD",
        text="Fields that rows have besides: text, links, headings, images … or all.",
        panel=ROWS,
    ),
]
Extract = Annotated[
    list[str] | None,
    option(
        "--extract",
        value="KIND,KIND",
        text="Rows of this kind instead: product, article, event, recipe, job, breadcrumb, text, markdown.",
        panel=ROWS,
    ),
]
CheckLinks = Annotated[
    bool, switch("--check-links", text="Report broken links; exit code 1 if there are any.", panel=ROWS)
]
CheckAssets = Annotated[
    bool, switch("--check-assets", text="… and images, scripts, style sheets that are missing.", panel=ROWS)
]
CheckAnchors = Annotated[
    bool, switch("--check-anchors", text="… and links to a #part that its page does not have.", panel=ROWS)
]


def flags(
    source: SpiderSource, row: Sequence[str] | None, extract: Sequence[str] | None
) -> dict[str, object]:
    """The settings that the options stand for."""
    given: dict[str, object] = {}
    for name, key, words, known in (
        ("--row", "row_fields", row, get_args(RowField)),
        ("--extract", "extract", extract, get_args(ExtractKind)),
    ):
        if not words:
            continue
        if source.checks:
            raise UsageError(f"{name} and --check-links write different rows: run them one after the other")
        if source.spec is not None:
            raise UsageError(
                f"{name} is for a crawl without code, and {source.spec} is a spider: it says itself what its rows have"
            )
        given[key] = read_names(name, words, known)
    return given


def named(source: SpiderSource, given: Mapping[str, object]) -> SpiderSource:
    """Rows of another kind are another job: `shoal crawl URL` may have been run before, and has its own file."""
    kinds = given.get("extract") or (["row"] if "row_fields" in given else [])
    return (
        replace(source, name="-".join([source.name, *kinds])) if isinstance(kinds, list) and kinds else source
    )


def read_names(option: str, words: Sequence[str], known: Sequence[str]) -> list[str]:
    """ "text,links" and several options are one list."""
    names = [name.strip().lower() for word in words for name in word.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise UsageError(f"{option} {name}: there is no such name; there are {', '.join(known)}")
    if not names:
        raise UsageError(f"{option}: name at least one of {', '.join(known)}")
    return list(dict.fromkeys(names))
