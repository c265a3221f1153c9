"""The main text of pages: CPU a page, and how much of the text is found, by trafilatura and by others.

python -m benchmarks.main_text

The pages are made here, in the ways in which sites are built: an article between menus, one with comments, one without
any semantic element, documentation with a sidebar and code, a product, a page in Japanese. Of each, the words that
belong to the text are known: F1 is the harmonic mean of the share of found words that belong to it, and the share of
its words that are found.

Others: pip install resiliparse readability-lxml
"""

from __future__ import annotations

import argparse
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec

_TEXT = (
    "harbour morning engine letter window garden reason market silver travel winter bridge common doctor energy figure "
    "forest ground number office people public record second simple street summer system theory village weather"
)
_MENU = "home products about contact login basket newsletter imprint privacy share follow related"
_WORDS, _NOISE = _TEXT.split(), _MENU.split()
_KANJI = "東京港朝機械手紙窓庭理由市場銀旅冬橋医者力図森地番号人公秒道夏村天気"


def sentence(rng: random.Random) -> str:
    words = rng.choices(_WORDS, k=rng.randint(8, 18))
    return " ".join(words).capitalize() + "."


def paragraph(rng: random.Random, sentences: int = 4) -> str:
    return " ".join(sentence(rng) for _ in range(sentences))


def menu(rng: random.Random, number: int = 12) -> str:
    return "".join(f'<li><a href="/{word}">{word}</a></li>' for word in rng.choices(_NOISE, k=number))


def article(rng: random.Random) -> tuple[str, str]:
    parts = [paragraph(rng) for _ in range(8)]
    body = "".join(f"<p>{part}</p>" for part in parts)
    html = (
        f"<header><ul>{menu(rng)}</ul></header><main><article><h1>Morning harbour</h1>{body}</article></main>"
        f"<aside><h3>popular</h3><ul>{menu(rng)}</ul></aside><footer>{menu(rng)}</footer>"
    )
    return html, " ".join(["Morning harbour", *parts])


def with_comments(rng: random.Random) -> tuple[str, str]:
    html, text = article(rng)
    said = "".join(f'<div class="comment"><b>reader</b><p>unrelated opinion {n}</p></div>' for n in range(20))
    return html.replace("</main>", f'<div id="comments">{said}</div></main>'), text


def divs(rng: random.Random) -> tuple[str, str]:
    parts = [paragraph(rng) for _ in range(6)]
    body = "".join(f'<div class="t">{part}<br><br></div>' for part in parts)
    content = f'<div class="c"><div class="h">Silver market</div>{body}</div>'
    html = f'<div class="n">{menu(rng, 30)}</div>{content}<div>{menu(rng)}</div>'
    return html, " ".join(["Silver market", *parts])


def documentation(rng: random.Random) -> tuple[str, str]:
    sections, words = [], []
    for number in range(5):
        text, code, items = paragraph(rng, 2), f"call_{number}(value)", [sentence(rng) for _ in range(3)]
        listed = "".join(f"<li>{item}</li>" for item in items)
        sections.append(
            f"<h2>Section {number}</h2><p>{text}</p><pre><code>{code}</code></pre><ul>{listed}</ul>"
        )
        words += [f"Section {number}", text, code, *items]
    content = f'<div role="main"><h1>Manual</h1>{"".join(sections)}</div>'
    html = f'<nav class="sidebar"><ul>{menu(rng, 60)}</ul></nav>{content}'
    return html, " ".join(["Manual", *words])


def product(rng: random.Random) -> tuple[str, str]:
    text = paragraph(rng, 5)
    rows = "".join(f"<tr><th>{word}</th><td>{sentence(rng)}</td></tr>" for word in _WORDS[:5])
    html = (
        f"<nav>{menu(rng, 20)}</nav><div class=product><h1>Winter engine</h1><span class=price>12.50</span>"
        f"<button>basket</button><div class=description><p>{text}</p><table>{rows}</table></div></div>"
        f"<section><h2>related</h2>{menu(rng, 20)}</section>"
    )
    return html, " ".join(["Winter engine", text, re.sub(r"<[^>]+>", " ", rows)])


def japanese(rng: random.Random) -> tuple[str, str]:
    parts = ["".join(rng.choices(_KANJI, k=60)) + "。" for _ in range(8)]
    body = "".join(f"<p>{part}</p>" for part in parts)
    return (
        f"<nav>{menu(rng)}</nav><article><h1>朝の港</h1>{body}</article><footer>{menu(rng)}</footer>",
        "朝の港" + "".join(parts),
    )


PAGES: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "article": article,
    "comments": with_comments,
    "divs": divs,
    "documentation": documentation,
    "product": product,
    "japanese": japanese,
}


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[\u3040-\u9fff]|[^\W\u3040-\u9fff]+", text.lower()))


def f1(found: str, truth: str) -> float:
    ours, theirs = words(found), words(truth)
    both = (ours & theirs).total()
    return 2 * both / (ours.total() + theirs.total()) if both else 0.0


def extractors() -> dict[str, Callable[[str], str]]:
    from selectolax.lexbor import LexborHTMLParser
    from trafilatura import extract

    from shoal.html.main_text import main_text
    from shoal.html.visible_text import visible_text

    url = "https://a.example/"
    found: dict[str, Callable[[str], str]] = {
        "whole page (visible text)": lambda html: visible_text(LexborHTMLParser(html)),
        "trafilatura, as Shoal uses it": lambda html: main_text(html, url, "text"),
        "… as Markdown": lambda html: main_text(html, url, "markdown"),
        "trafilatura, as it is": lambda html: extract(html, url=url, include_comments=False) or "",
        "trafilatura, fast": lambda html: extract(html, url=url, include_comments=False, fast=True) or "",
    }
    if find_spec("resiliparse"):
        from resiliparse.extract.html2text import extract_plain_text

        found["resiliparse"] = lambda html: extract_plain_text(html, main_content=True, comments=False)
    if find_spec("readability"):
        from readability import Document

        found["readability-lxml"] = lambda html: visible_text(LexborHTMLParser(Document(html).summary()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=20, help="of each kind")
    pages = parser.parse_args().pages
    logging.disable(logging.CRITICAL)
    rng = random.Random(7)
    made = {kind: [make(rng) for _ in range(pages)] for kind, make in PAGES.items()}
    made = {
        kind: [(f"<!DOCTYPE html><title>T</title><body>{html}", text) for html, text in found]
        for kind, found in made.items()
    }
    print(f"{'':32}{'ms a page':>10}" + "".join(f"{kind:>15}" for kind in made))
    for name, extractor in extractors().items():
        extractor(made["article"][0][0])  # imports
        began = time.process_time()
        scores = [sum(f1(extractor(html), text) for html, text in found) / pages for found in made.values()]
        spent = (time.process_time() - began) / pages / len(made) * 1000
        print(f"{name:32}{spent:10.2f}" + "".join(f"{score:15.2f}" for score in scores))


if __name__ == "__main__":
    main()
