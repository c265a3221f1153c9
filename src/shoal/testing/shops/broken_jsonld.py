"""JSON-LD that no strict parser takes, as templates with unescaped values and careless edits leave it behind.

A person can read all of them.
"""

from __future__ import annotations

from html import escape

from shoal.testing.shops.jsonld_shapes import Shape, organization, product
from shoal.testing.shops.product_view import View


def _text(view: View) -> str:
    return view.dump(product(view))


def trailing_commas(view: View) -> str:
    """A loop in a template that ends every line with a comma."""
    return view.script(_text(view).replace("\n  }", ",\n  }").replace("\n}", ",\n}"))


def raw_line_breaks(view: View) -> str:
    """A description with line breaks and tabs as they were typed."""
    whole = _text(view)
    return view.script(whole.replace('"description": "', '"description": "Line one\n\tline two\r\n', 1))


def bare_quotes(view: View) -> str:
    """A description with quotation marks that nobody escaped."""
    whole = _text(view)
    return view.script(whole.replace('"description": "', '"description": "The "best" one, 19" wide: ', 1))


def in_comment(view: View) -> str:
    return view.script(f"\n<!--\n{_text(view)}\n-->\n")


def in_cdata(view: View) -> str:
    return view.script(f"\n//<![CDATA[\n{_text(view)};\n//]]>\n")


def escaped_whole(view: View) -> str:
    """Escaped for HTML, which scripts do not undo."""
    return view.script(escape(_text(view)))


def one_after_another(view: View) -> str:
    """Two objects in a script, without a list around them."""
    return view.script(view.dump(organization(view)) + "\n" + _text(view))


def cut_short(view: View) -> str:
    """The last brace is missing."""
    return view.script(_text(view).rstrip().removesuffix("}"))


def script_comments(view: View) -> str:
    """Comments of JavaScript between the fields."""
    whole = _text(view)
    return view.script(whole.replace('"offers":', '// the price\n  /* with tax */ "offers":', 1))


def byte_mark(view: View) -> str:
    """A byte order mark at the beginning, and a semicolon at the end."""
    mark = "" if view.ascii else "\ufeff"
    return view.script(mark + _text(view) + ";")


BROKEN: dict[str, Shape] = {
    shape.__name__.replace("_", " "): shape
    for shape in (
        trailing_commas,
        raw_line_breaks,
        bare_quotes,
        in_comment,
        in_cdata,
        escaped_whole,
        one_after_another,
        cut_short,
        script_comments,
        byte_mark,
    )
}
