"""What each key of a TOML spider means, in one line: for editors, and for the tables of docs/toml.md."""

from __future__ import annotations

from collections.abc import Mapping

SITE: Mapping[str, str] = {
    "name": "the name of its jobs; by default that of the file, and of the site",
    "use": "the template that it is made of, or a list of them: later ones win",
    "start": "where it begins: a URL, `{ url = …, handler = … }`, `{ file = … }` with a URL a line, or a list of these",
    "sitemap": "a sitemap to begin with, `{ url = …, since = … }`, or a list; `match` deals its pages to handlers",
    "feed": "an RSS, Atom or JSON feed to begin with, in the same way",
    "include": "URL patterns: only links that fit one are followed",
    "exclude": "URL patterns: links that fit one are not followed",
    "every": "how often `shoal submit` runs it: `30m`, `2h`, `1d`",
    "cron": "at which times `shoal submit` runs it, in UTC: `30 4 * * 1-5`",
    "hooks": 'functions by the kind of hook: `on_item = "module:function"`, or a list',
    "handler": "the kinds of pages, by name; `false` takes one of a template away",
}
FILE: Mapping[str, str] = {
    "template": "what sites share, by name: `[template.shop]`",
    "site": "the sites, by name: `[site.lamps]`; without any, the file is one site",
}
HANDLER: Mapping[str, str] = {
    "match": "URL patterns of its pages: which start URLs, entries of sitemaps and dealt links go to it",
    "when": "a CSS selector: without such an element a page has no item, and that is no error",
    "each": "what is repeated, and an item each: a CSS selector, `{ xpath = … }`, `{ json = … }`, `{ data = … }`",
    "fields": "the fields of its items, by name",
    "item": "the kind of its items, which is the table of a database; by default the handler's name",
    "key": "the field, or list of fields, that identifies an item: it is written once",
    "follow": "links to follow: `true` for all that fit a `match`, a CSS selector of such, or handler = links",
    "next": "the link to the next page of a list, which goes to the same handler",
    "paginate": 'numbered pages of a list: `{ param = "page", total = ".pages" }`',
    "files": "fields with URLs of files, which are downloaded",
    "lane": "the lane of its pages",
    "priority": "higher goes first, within a lane and host",
    "pool": "the proxy pool of its pages",
    "country": "where their proxies are",
    "wait_for": "in a browser, when a page is complete: `load`, `quiet` or a CSS selector",
    "revisit": "when its pages are visited again: `1h`, `auto`, `never`",
    "function": "a handler in Python instead of all this: `module:function`",
}
FIELD: Mapping[str, str] = {
    "css": "a CSS selector: the text of the element; `::attr(name)` at its end is an attribute",
    "xpath": "an XPath expression (needs lxml)",
    "json": "a path into the page's JSON, its body or scripts; with another place, into what that finds",
    "script": "a text before JSON in a script, such as `window.__STATE__`",
    "data": "structured data: kind of record and path, such as `product.price`",
    "meta": "the content of a `<meta>` element, by its name or property",
    "page": "a fact about the page: `url`, `site`, `handler`, `status`, `depth`, `fetched_at`, `text`, `html`",
    "carried": "a value that the link to this page carried along",
    "like": "another field: it is found at the same place, to be read as another type",
    "const": "a fixed value",
    "any": "alternatives: the first that gives something; a list instead of a table means the same",
    "attr": "an attribute of the element instead of its text",
    "regex": "a regular expression that is searched in what was found: its first group, else the whole match",
    "type": "what the value is; without it a text, or what JSON says",
    "list": "all values, not the first",
    "required": "an item without it is rejected, with the reason",
    "default": "the value if nothing is found; otherwise that is `null`, an empty list, or `false` for a `bool`",
    "clean": "cleaning steps, in their order",
    "format": "how it is written: `%d.%m.%Y` for dates, `1.234,56` for numbers",
    "each": "what is repeated: the field is a list of objects",
    "fields": "the fields of the object, or of each; they are looked for inside it",
}
FOLLOW: Mapping[str, str] = {
    "css": "a CSS selector of the links; without a place, all links of the page",
    "xpath": "an XPath expression for links or their addresses",
    "json": "a path into the page's JSON, to addresses or to what `url` is made of",
    "url": "the address, with `{}` for what was found: `/product/{}`",
    "include": "URL patterns: only links that fit one",
    "exclude": "URL patterns: no links that fit one",
    "carry": "fields of this page that go along, to be read there as `carried`",
    "lane": "instead of the handler's",
    "priority": "instead of the handler's",
}
PAGINATE: Mapping[str, str] = {
    "param": "the query parameter with the number of the page",
    "total": "how many pages there are: a number, or a CSS selector of an element that says so",
    "count": "a CSS selector of an element with the number of results, instead of `total`",
    "per_page": "results on a page, with `count`",
    "first": "the number of the first page; 1 by default",
}
EACH: Mapping[str, str] = {
    "css": "a CSS selector",
    "xpath": "an XPath expression; fields inside it are XPath, too",
    "json": "a path into the page's JSON; paths of fields begin there",
    "data": "structured data: kind of record and path; paths of fields begin there",
}
START: Mapping[str, str] = {
    "url": "a URL",
    "file": "a file with one URL a line, beside the TOML file",
    "handler": "the handler of that URL; by default the one whose `match` fits, else the first",
}
SOURCE: Mapping[str, str] = {
    "url": "its URL; of a site without a path: the sitemaps that its robots.txt names",
    "since": "only pages that changed since a date, or since the `last` run",
    "handler": "the handler of all its pages, instead of dealing them by `match`",
}
CLEAN_WORDS: Mapping[str, str] = {
    "strip": "without white space at both ends",
    "lower": "in small letters",
    "upper": "in capital letters",
    "title": "Each Word With A Capital",
    "squeeze": "single blanks for all white space",
    "digits": "digits only",
    "unescape": "`&amp;` as `&`",
    "unique": "each value of a list once",
    "sort": "a list in order",
    "reverse": "a list backwards",
    "last": "the last of several values",
}
CLEAN: Mapping[str, str] = {
    "remove": "without this text, or these texts",
    "replace": 'one text instead of another: `["old", "new"]`',
    "before": "what is before a text",
    "after": "what is after a text",
    "split": "several values, by what separates them",
    "join": "one value, with this between",
    "prefix": "with this before it",
    "suffix": "with this behind it",
    "cut": "the first so many characters",
    "map": 'other words for some: `{ "Auf Lager" = "in_stock" }`',
}
TABLES: Mapping[str, Mapping[str, str]] = {
    "SiteTable": SITE,
    "FileTable": {**SITE, **FILE},
    "HandlerTable": HANDLER,
    "FieldTable": FIELD,
    "FollowTable": FOLLOW,
    "PaginateTable": PAGINATE,
    "EachTable": EACH,
    "StartTable": START,
    "SourceTable": SOURCE,
    "CleanTable": CLEAN,
}
