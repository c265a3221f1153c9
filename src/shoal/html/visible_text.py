"""The text a reader would see."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser, LexborNode

_UNSEEN = ["script", "style"]
_UNSEEN_SELECTOR = "script,style"


def squeeze(text: str) -> str:
    """White space as a browser shows it: single spaces, none at the ends."""
    return " ".join(text.split())


def visible_text(tree: LexborHTMLParser) -> str:
    """The text of the body without scripts and styles, white space as it stands. The tree is left unchanged."""
    body = tree.body
    if body is None:
        return ""
    if body.css_first(_UNSEEN_SELECTOR) is not None:
        copy = tree.clone()
        copy.strip_tags(_UNSEEN, recursive=True)
        body = copy.body
    return "" if body is None else body.text(separator=" ")


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
