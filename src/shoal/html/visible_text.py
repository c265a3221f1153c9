"""The text a reader would see."""

from __future__ import annotations

from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

_UNSEEN = ("script", "style", "template")
# What begins a new line, or a cell, in every browser. Elsewhere words stand together: <b>in</b>line.
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "br",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hgroup",
        "hr",
        "html",
        "iframe",
        "legend",
        "li",
        "main",
        "menu",
        "nav",
        "ol",
        "optgroup",
        "option",
        "p",
        "pre",
        "search",
        "section",
        "select",
        "summary",
        "table",
        "tbody",
        "td",
        "text",
        "tfoot",
        "th",
        "thead",
        "tr",
        "ul",
    ]
)


def squeeze(text: str) -> str:
    """White space as a browser shows it: single spaces, none at the ends."""
    return " ".join(text.split())


def readable_text(node: LexborNode) -> str:
    """The text of an element as a reader sees it: lines and cells are separate words, scripts and styles are left out,
    white space is single spaces."""
    child = node.first_child
    if child is None or (child.tag == "-text" and child.next is None):
        return squeeze(node.text())  # most elements that one asks for; of a script, its code
    return squeeze("".join(_pieces(node)))


def _pieces(top: LexborNode) -> Iterator[str]:
    """The texts inside, and a blank where a block begins or ends. Without recursion, since pages nest deeply. Not by
    patterns in the markup, which a page could make slow or wrong: a tag may stand in an attribute or a <plaintext>."""
    ancestors: list[LexborNode] = []  # of `node`, below the top
    node = top.first_child
    while node is not None:
        tag = node.tag
        if tag == "-text":
            yield node.text_content or ""
        elif tag in _BLOCKS:
            yield " "
        child = None if tag in _UNSEEN else node.first_child
        if child is not None:
            ancestors.append(node)
            node = child
            continue
        while (following := node.next) is None and ancestors:
            node = ancestors.pop()
            if node.tag in _BLOCKS:
                yield " "
        node = following


def visible_text(tree: LexborHTMLParser) -> str:
    """The text of the body."""
    return "" if tree.body is None else readable_text(tree.body)


def visible_length(tree: LexborHTMLParser) -> int:
    """How many characters the visible text has, white space not counted.

    Without a selector and without a copy, which for an ordinary page would take as long as parsing it.
    """
    body = tree.body
    if body is None:
        return 0
    unseen = [node for tag in _UNSEEN for node in tree.tags(tag)]
    if any(map(_holds_elements, unseen)):
        # In SVG and MathML they do, and can lie in one another: then each would count the text of all within it.
        return _count(visible_text(tree))
    return _count(body.text_lexbor()) - sum(
        _count(node.text_lexbor()) for node in unseen if not _in_head(node)
    )


def _holds_elements(node: LexborNode) -> bool:
    child = node.first_child
    return child is not None and (child.tag != "-text" or child.next is not None)


def _in_head(node: LexborNode) -> bool:
    """For a script or style: the parser leaves them in the head only directly, or in a <noscript>."""
    parent = node.parent
    if parent is not None and parent.tag == "noscript":
        parent = parent.parent
    return parent is not None and parent.tag == "head"


def _count(text: str) -> int:
    encoded = text.encode("utf-8", "replace")
    return len(text) - len(encoded) + len(encoded.translate(None, b" \t\n\r\f"))
