"""Selectors: what lexbor finds alone, found in linear time; and never slower on hostile trees."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from shoal.html.css import Selection, _Nodes, plan_for, select
from shoal.model import Response, Task
from shoal.spider.page import Page

TAGS = [
    "div",
    "p",
    "span",
    "ul",
    "li",
    "a",
    "section",
    "b",
    "td",
    "tr",
    "table",
    "svg",
    "template",
    "select",
    "rt",
    "x-y",
]
PARTS = [
    *(
        "div",
        "p",
        "li",
        "a",
        "*",
        ".c1",
        ".c2",
        "span",
        "#i1",
        "ul.c0",
        "section",
        "b",
        "tr",
        "option",
        "div:has(a)",
    ),
    *('[class="c1"]', "div:not(.c1)", '[class="c1 > x, y"]', "p:first-child", "p:last-child", "b:only-child"),
    *(
        "li:nth-child(2)",
        "td:nth-of-type(odd)",
        ":nth-last-child(2n + 1)",
        ":nth-child(-n+3)",
        ":nth-child(even)",
    ),
    *("a:nth-last-of-type(1)", "*:nth-child(n+2):nth-child(-n+4)", "DIV:NTH-CHILD(3)", "[id='i\\'1']"),
]


def document(rng: random.Random) -> bytes:
    parts = []
    for _ in range(rng.randrange(3, 80)):
        tag = rng.choice(TAGS)
        chance = rng.random()
        if chance < 0.55:
            parts.append(f'<{tag} class="c{rng.randrange(3)}" id=i{rng.randrange(5)}>')
        else:
            parts.append(f"</{tag}>" if chance < 0.85 else "<!-- c -->" if chance < 0.9 else "text")
    return "".join(parts).encode()


def selector(rng: random.Random) -> str:
    one = rng.choice(PARTS)
    for _ in range(rng.randrange(4)):
        one += rng.choice([" ", "  ", " > ", ">", " + ", "~", " ~ "]) + rng.choice(PARTS)
    return one if rng.random() < 0.7 else f"{one}, {rng.choice(PARTS)}"


@pytest.mark.parametrize("seed", range(60))
def test_a_walk_finds_what_lexbor_finds(seed: int) -> None:
    rng = random.Random(seed)
    tree = LexborHTMLParser(document(rng))
    for _ in range(30):
        asked = selector(rng)
        plan = plan_for(asked)
        assert plan is not None, asked
        alone = [node.mem_id for node in tree.css(asked)]
        assert [node.mem_id for node in select(_Nodes(tree), plan)] == alone, asked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "asked", "count"),
    [
        (b"<div>" * 1_000 + b"<a>x</a>", "section div div div a", 0),  # two minutes
        (b"<div>" * 100 + b"<a>x</a>" * 50_000, "section div div a", 0),  # half a minute
        (b"<div>" * 30 + b"<a>x</a>" * 50_000, "div div div div div a", 50_000),
        (b"<span>" * 30_000 + b"<b></b>" * 30_000, "section b", 0),
        (b"<ul>" + b"<li>x" * 50_000, "li:nth-child(2)", 1),  # ten seconds
        (b"<ul>" + b"<li>x" * 50_000, "ul li:nth-last-of-type(odd)", 25_000),
        (b"<ul>" + b"<li>x" * 50_000, "p ~ li", 0),  # ten seconds
    ],
)
def test_no_page_makes_a_selector_slow(body: bytes, asked: str, count: int) -> None:
    url = "https://a.example/"
    page = Page(Task(url=url), Response(url, 200, {}, body), "h")
    began = time.thread_time()
    assert len(page.css(asked)) == count
    assert (page.first(asked) is None) == (count == 0)
    assert time.thread_time() - began < 6


def test_an_ordinary_page_is_left_to_lexbor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.html.css.select", None)
    card = b'<div class="a"><ul><li><p>x <a href="/x/1">y</a></p></ul></div>'
    tree = LexborHTMLParser((b"<section>" + card * 20 + b"</section>") * 10)
    selection = Selection(tree)
    assert len(selection.all("body div.a ul li a")) == 200
    assert selection.first("li ~ li") is None
    assert len(selection.all("li p:nth-child(1) a, p a")) == 400


@pytest.mark.parametrize(
    "asked",
    [
        "",
        ",",
        "a,",
        "> a",
        "a >",
        "a:nth-child(x)",
        "a[",
        'a["]',
        "a:is(b) c",
        "a:not(:nth-child(2))",
        "a||b",
        "(",
        ")",
    ],
)
def test_what_is_odd_is_left_to_lexbor(asked: str) -> None:
    assert plan_for(asked) is None


def test_a_wrong_selector_is_said_to_be_wrong() -> None:
    url = "https://a.example/"
    page = Page(Task(url=url), Response(url, 200, {}, b"<div>" * 5_000), "h")
    for asked in ("", "a >", "div :no-such-thing a", "a["):
        with pytest.raises(ValueError, match="not a CSS selector"):
            page.css(asked)


def test_a_wrong_selector_does_not_spoil_the_next_one() -> None:
    """One engine serves all pages."""
    first, second = (LexborHTMLParser(f"<p>{n}<p class=b>{n}{n}") for n in "12")
    for asked in ("p:is(", "p[", "p .b,", "::x"):
        with pytest.raises((SelectolaxError, ValueError)):
            Selection(first).all(asked)
        assert [node.text() for node in Selection(second).all("p")] == ["2", "22"]
    found = Selection(second).first("p.b")
    assert found is not None
    assert found.text() == "22"


@pytest.mark.parametrize("seed", range(20))
def test_the_shared_engine_finds_what_a_page_finds_itself(seed: int) -> None:
    draw = random.Random(seed)
    opened = [draw.choice(TAGS) for _ in range(60)]
    tree = LexborHTMLParser("".join(f"<{tag} class={draw.choice('xyz')}>" for tag in opened))
    for asked in ("p", ".x", "div > .y", "li, .z, *", "html", "svg *", "template *", "no-such"):
        expected = [node.mem_id for node in tree.css(asked)]
        assert [node.mem_id for node in Selection(tree).all(asked)] == expected
        first = Selection(tree).first(asked)
        assert ([] if first is None else [first.mem_id]) == expected[:1]


def test_threads_select_beside_one_another() -> None:
    trees = [LexborHTMLParser(f"<p>{n}" * 200) for n in range(8)]

    def count(number: int) -> set[str]:
        found = (Selection(trees[number]).all("p") for _ in range(200))
        return {node.text() for nodes in found for node in nodes}

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(count, range(8))) == [{str(number)} for number in range(8)]
