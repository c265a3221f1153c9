"""Arguments of spiders: text from the command line, read by the signature of a factory."""

from __future__ import annotations

import datetime
import enum
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from shoal import Secret, Spider, text
from shoal.errors import SpiderError, UsageError
from shoal.model import Failure
from shoal.spider.arguments import Factory, job_name
from shoal.spider.loading import SpiderSource, load_spider, make_spider


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def shop(  # type: ignore[no-untyped-def]
    category: str,
    limit: Annotated[int, Meta(ge=1, description="pages at most")] = 10,
    price: float = 0.5,
    sale: bool = False,
    kind: Literal["new", "used"] = "new",
    colour: Colour = Colour.RED,
    tags: list[str] = [],  # noqa: B006
    pages: tuple[int, ...] = (),
    since: datetime.date | None = None,
    folder: Path = Path(),
    untyped=3,
    token: str = "",
    pin: Secret = "",
) -> Spider:
    made = Spider("shop", start=f"https://a.example/{category}")
    made.add_handler(lambda page: None, name="listing")
    return made


def read(*pairs: str, function: Callable[..., Any] = shop) -> Any:
    return Factory(function, "shop.py:shop").read(pairs)


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("category=a=b c", "a=b c"),
        ("category=", ""),
        ("limit=7", 7),
        ("price=1e-1", 0.1),
        ("sale=yes", True),
        ("kind=used", "used"),
        ("colour=blue", Colour.BLUE),
        ("tags=a, b", ["a", "b"]),
        ('tags=["a,b"]', ["a,b"]),
        ("pages=1,2", (1, 2)),
        ("since=2031-05-30", datetime.date(2031, 5, 30)),
        ("since=none", None),
        ("folder=/tmp/x", Path("/tmp/x")),
        ("untyped=4", 4),
    ],
)
def test_the_signature_says_what_a_text_is_read_as(pair: str, value: object) -> None:
    given = read("category=books", pair) if not pair.startswith("category") else read(pair)
    found = given.values[pair.partition("=")[0]]
    assert (found, type(found)) == (value, type(value))


def test_a_list_may_be_given_piece_by_piece() -> None:
    assert read("category=x", "tags=a,b", "tags=c").values["tags"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ((), r"shop.py:shop needs -a category=…; shoal crawl shop.py:shop --help-args lists them"),
        (("categry=x",), r"no argument 'categry'; did you mean 'category'\?"),
        (("category=x", "limit=ten"), "-a limit=ten: limit must be a whole number, at least 1"),
        (("category=x", "limit=0"), "-a limit=0: limit must be a whole number, at least 1"),
        (("category=x", "kind=old"), "kind must be new or used"),
        (("category=x", "colour=green"), "colour must be red or blue"),
        (("category=x", "pages=1,b"), "pages must be a list of whole numbers"),
        (("category=x", "since=tomorrow"), "since must be a date, as in 2031-05-30 or none"),
        (("category=x", "category=y"), "-a category is given 2 times: give it once"),
        (("category=\udcff",), "-a category: its value is not UTF-8 text"),
        (("category=" + "x" * 5_000,), "arguments of 5,009 characters, at most 4,000 are noted with a job"),
        (("category=x", "price=nan"), "-a price=nan: price must be a number"),
        (("category",), "-a category: write it as name=value, for example -a category=books"),
        (("category=x", "token=env:SHOAL_NOT_THERE"), "no variable SHOAL_NOT_THERE in the environment"),
        (("category=x", "token=file:/not/there"), "-a token=file:/not/there: cannot be read"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(pairs: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(*pairs)


# -- the job that they make


def named(*pairs: str) -> str:
    return job_name(make_spider(Factory(shop, "shop.py:shop"), pairs))


def test_other_arguments_are_another_job() -> None:
    books = named("category=books")
    assert re.fullmatch(r"shop-books-[0-9a-f]{8}", books)
    assert re.fullmatch(r"shop-[0-9a-f]{8}", named("category=/日本/"))
    assert re.fullmatch(
        r"shop-https-a-example-x-y-z-1-[0-9a-f]{8}", named("category=https://a.example/x/y/z?1=2")
    )
    assert named("category=toys") != books
    assert named("category=books", "limit=5") != books


def test_the_same_arguments_are_the_same_job_however_they_are_written() -> None:
    books = named("category=books", "limit=5", "tags=a,b")
    assert named("tags=a", "limit=05", "tags=b", "category=books") == books
    assert named("category=books", "limit=5", 'tags=["a", "b"]', "sale=off") == books


def test_a_spider_without_arguments_keeps_its_name() -> None:
    assert job_name(Spider("books", start="https://a.example/")) == "books"


def test_what_is_noted_can_be_read_again() -> None:
    pairs = [
        "category=[x",
        "limit=5",
        "tags=a,b",
        "since=2031-05-30",
        "colour=blue",
        "sale=1",
        "pages=1",
        "price=2",
    ]
    given = read(*pairs)
    again = read(*given.made_by.arguments)
    assert again.values == given.values
    assert again.made_by == given.made_by


# -- secrets


def test_a_secret_is_not_written_down_and_makes_no_other_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "from-env")
    (tmp_path / "pin").write_text("from-file\n")
    given = read("category=x", "token=hunter22", "pin=1234567")
    assert given.values["token"] == "hunter22"
    assert given.made_by.arguments == ("category=x", "token=…", "pin=…")
    assert given.made_by.kept_back == ("token", "pin")
    assert "hunter22" not in repr(given)
    given = read("category=x", "token=env:SHOP_TOKEN", f"pin=file:{tmp_path / 'pin'}")
    assert (given.values["token"], given.values["pin"]) == ("from-env", "from-file")
    assert given.made_by.arguments[1] == "token=env:SHOP_TOKEN"
    assert given.made_by.kept_back == ()
    assert named("category=x", "token=hunter22") == named("category=x") == named("category=x", "pin=other")


def test_a_password_in_a_url_is_not_written_down() -> None:
    given = read("category=https://me:hunter22@a.example/x")
    assert given.values["category"] == "https://me:hunter22@a.example/x"
    assert given.made_by.arguments == ("category=https://a.example/x",)
    assert given.made_by.kept_back == ("category",)


def test_which_arguments_are_secret() -> None:
    def many(
        a: Secret | None = None,
        b: list[Secret] = [],  # noqa: B006
        api_key: str = "",
        accessToken: str | None = None,  # noqa: N803
        passphrase: list[str] = [],  # noqa: B006
        max_tokens: int = 5,
        keyword: str = "",
        cookie_banner: bool = True,
    ) -> Spider: ...

    factory = Factory(many, "shop.py:many")
    found = [name for name, one in factory.parameters().items() if one.secret]
    assert found == ["a", "b", "api_key", "accessToken", "passphrase"]
    given = factory.read(["b=one1,two2", "b=three", "a=hunter22", "max_tokens=7"])
    assert given.made_by.arguments == ("a=…", "b=…", "max_tokens=7")
    assert sorted(given.secrets) == ["hunter22", "one1", "three", "two2"]


def test_an_ellipsis_is_no_mask() -> None:
    assert read("category=a…").made_by.kept_back == ()


def test_the_order_of_the_parameters_makes_no_other_job() -> None:
    def turned(limit: int, category: str) -> Spider:
        return shop(category)

    other = make_spider(Factory(turned, "shop.py:shop"), ["category=x", "limit=5"])
    assert job_name(other) == named("category=x", "limit=5")


def test_an_error_of_the_factory_names_its_line_and_no_secret() -> None:
    def angry(token: str) -> Spider:
        raise ValueError(f"no such token: {token}")

    with pytest.raises(SpiderError, match=r"test_arguments.py:\d+: ValueError: no such token: …$"):
        make_spider(Factory(angry, "shop.py:angry"), ["token=hunter22"])


def test_what_the_spider_raises_or_logs_has_no_secret() -> None:
    make_spider(Factory(shop, "shop.py:shop"), ["category=x", "pin=hunter", "token=hunter/22"])
    failure = Failure("handler", "cannot log in with hunter/22 at https://a.example/?key=hunter%2F22")
    assert failure.detail == "cannot log in with … at https://a.example/?key=…"


def test_a_source_does_not_show_its_arguments() -> None:
    assert (
        repr(SpiderSource(name="", spec="shop.py", arguments=("token=hunter22",))) == "<SpiderSource shop.py>"
    )


# -- finding factories

FILE = """
from __future__ import annotations
from typing import TYPE_CHECKING
import shoal
if TYPE_CHECKING:
    from shoal import Spider

def spider(category: str = "all") -> Spider:
    made = shoal.Spider(category, start="https://a.example/")
    made.add_handler(helper, name="listing")
    return made

def helper(page): ...

def odd(page): return 5

async def later(): return 5
"""


@pytest.fixture(autouse=True)
def clean_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(text, "_hidden", [])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if "shop" in name or name == "decorating":
            del sys.modules[name]


@pytest.fixture
def shop_file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.py"
    path.write_text(FILE)
    return path


def test_a_file_with_one_factory(shop_file: Path) -> None:
    assert load_spider(str(shop_file)).name == "all"
    made = load_spider(f"{shop_file}:spider", ["category=toys"])
    assert made.name == "toys"
    assert made.made_by is not None
    assert (made.made_by.factory, made.made_by.arguments) == ("shop:spider", ("category=toys",))


def test_a_factory_may_be_decorated(shop_file: Path) -> None:
    (shop_file.parent / "decorating.py").write_text(
        "import functools\ndef kept(function):\n"
        "    @functools.wraps(function)\n    def call(*args, **named):\n        return function(*args, **named)\n"
        "    return call\n"
    )
    decorated = FILE.replace(
        "def spider", "from decorating import kept\nfrom datetime import date\n@kept\ndef spider", 1
    )
    shop_file.write_text(
        decorated.replace('category: str = "all"', 'category: str = "all", day: date | None = None')
    )
    assert load_spider(str(shop_file), ["category=toys", "day=2031-05-30"]).name == "toys"
    shop_file.write_text(FILE.replace("def spider", "import functools\n@functools.cache\ndef spider", 1))
    assert load_spider(f"{shop_file}:spider", ["category=toys"]).name == "toys"


def test_a_function_that_returns_no_spider(shop_file: Path) -> None:
    with pytest.raises(SpiderError, match=r"shop.py:odd\(\) returned a int; it must return a Spider"):
        load_spider(f"{shop_file}:odd", ["page=x"])
    with pytest.raises(SpiderError, match=r"shop.py:later\(\) returned a coroutine; it must return a Spider"):
        load_spider(f"{shop_file}:later")


def test_a_spider_that_is_made_by_a_function_of_its_file_takes_no_arguments(shop_file: Path) -> None:
    shop_file.write_text(FILE + "made = spider()\n")
    assert load_spider(str(shop_file)).made_by is None
    with pytest.raises(
        UsageError, match=r"spider 'all' takes no arguments: is one of these meant: \S+shop.py:spider\?"
    ):
        load_spider(str(shop_file), ["category=toys"])
    shop_file.write_text("from shoal import Spider\nbooks = Spider('b', 'https://a.example/')\n")
    with pytest.raises(UsageError, match="spider 'b' takes no arguments: write a function that does"):
        load_spider(str(shop_file), ["category=toys"])


def test_a_type_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_text("import shoal\ndef spider(x: 'Nope') -> shoal.Spider: ...\n")
    with pytest.raises(
        SpiderError, match=r"shop.py:2: the types of its arguments cannot be read: name 'Nope'"
    ):
        load_spider(str(path), ["x=1"])
