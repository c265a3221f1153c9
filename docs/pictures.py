"""Makes the pictures of the terminal: python docs/pictures.py [NAME …]

The commands of the tutorial run in a pseudo-terminal, in a new folder, against a bookshop on this machine that has the
markup of books.toscrape.com. That name leads there, in these processes only. What the terminal shows becomes an SVG.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import threading
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "img"
SITE = "books.toscrape.com"
PORT = "SHOAL_PICTURES_PORT"  # not a setting: where the bookshop is, for the commands that this script starts
WIDTH = 100
HEIGHT = 44
LATEST = 120.0  # seconds that a command may take
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
COLOURS = (255, 107, 107), (126, 211, 135), (240, 190, 90), (86, 162, 242), (199, 146, 234), (86, 204, 242)
THEME = TerminalTheme(
    (22, 27, 34),
    (214, 222, 235),
    [(58, 58, 58), *COLOURS, (214, 222, 235)],
    [(92, 103, 120), *COLOURS, (255, 255, 255)],
)
TITLES = (
    "A Light in the Attic", "Tipping the Velvet", "Soumission", "Sharp Objects", "Sapiens", "The Requiem Red",
    "The Dirty Little Secrets", "The Coming Woman", "The Boys in the Boat", "The Black Maria", "Starving Hearts",
    "Shakespeare's Sonnets", "Set Me Free", "Scott Pilgrim", "Rip it Up", "Our Band Could Be Your Life", "Olio",
    "Mesaerion", "Libertarianism for Beginners", "It's Only the Himalayas",
)  # fmt: skip
STARS = ("Three", "One", "Five", "Four", "Two")
LISTS, PER_LIST = 4, 20


# -- the bookshop


def book_path(number: int) -> str:
    slug = re.sub(r"\W+", "-", TITLES[number % len(TITLES)].lower())
    return f"catalogue/{slug}_{1000 - number}/index.html"


def book_page(number: int) -> str:
    title, price = TITLES[number % len(TITLES)], 10 + number * 7919 % 5000 / 100
    return f"""<title>{title} | Books to Scrape - Sandbox</title><article class="product_page">
        <div class="product_main"><h1>{title}</h1><p class="price_color">£{price:.2f}</p>
        <p class="instock availability">In stock ({number % 20 + 1} available)</p>
        <p class="star-rating {STARS[number % 5]}"></p></div>
        <table><tr><th>UPC</th><td>{(number + 1) * 0x9E3779B97F4A7C15 % 2**64:016x}</td></tr></table></article>"""


def list_page(page: int) -> str:
    up = "" if page == 1 else "../"
    numbers = range((page - 1) * PER_LIST, page * PER_LIST)
    books = "".join(
        f'<article class="product_pod"><h3><a href="{up}{book_path(n)}">{TITLES[n % len(TITLES)]}</a></h3></article>'
        for n in numbers
    )
    following = f'<li class="next"><a href="{up}catalogue/page-{page + 1}.html">next</a></li>'
    return f"<title>All products | Books to Scrape</title>{books}<ul>{following if page < LISTS else ''}</ul>"


class Bookshop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pages = {  # noqa: RUF012
        "/": list_page(1),
        **{f"/catalogue/page-{page}.html": list_page(page) for page in range(2, LISTS + 1)},
        **{f"/{book_path(number)}": book_page(number) for number in range(LISTS * PER_LIST)},
    }

    def do_GET(self) -> None:
        time.sleep(0.05 + len(self.path) % 7 * 0.02)  # a server takes some time
        body = self.pages.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def bookshop() -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Bookshop) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.environ[PORT] = str(server.server_port)
        yield
        server.shutdown()


# -- the terminal


class Screen:
    """The lines of a terminal, as far as programs that redraw whole lines need one."""

    _CODE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\]8;[^\x1b]*\x1b\\|[\r\n]|[^\x1b\r\n]+|\x1b.")

    def __init__(self) -> None:
        self.lines = [""]
        self.row = 0
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._begun = ""  # half a code, at the end of what was read

    def write(self, data: bytes) -> None:
        text = self._begun + self._decoder.decode(data)
        self._begun = found[0] if (found := re.search(r"\x1b(\[[0-9;?]*)?$", text)) else ""
        text = text.removesuffix(self._begun)
        for match in self._CODE.finditer(text):
            piece, number, code = match[0], match[1], match[2]
            if piece == "\n":
                self.row += 1
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif code == "A":
                self.row = max(0, self.row - int(number or 1))
            elif code == "K":
                self.lines[self.row] = ""
            elif code == "m" or not piece.startswith(("\x1b", "\r")):
                self.lines[self.row] += piece

    def shown(self) -> list[str]:
        lines = [*self.lines]
        while lines and not re.sub(r"\x1b\[[0-9;]*m", "", lines[-1]).strip():
            lines.pop()
        return lines


def run(command: str, until: Callable[[Screen], bool] = lambda _: False) -> list[str]:
    """What the terminal shows after a command, or as soon as `until` says so; then it is interrupted."""
    process, terminal = pty.fork()
    if process == 0:
        words = [sys.executable, __file__, "run", *command.split()]
        os.execve(sys.executable, words, os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    screen, caught, latest = Screen(), None, time.monotonic() + LATEST
    while time.monotonic() < latest:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        try:
            data = os.read(terminal, 65536) if ready else b""
        except OSError:  # it has ended
            break
        screen.write(data)
        if caught is None and until(screen):
            caught = screen.shown()
            os.kill(process, signal.SIGINT)
    else:
        os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return caught or screen.shown()


def draw(name: str, lines: list[str]) -> None:
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    console.print(Text.from_ansi("\n".join(lines)))
    form = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = re.sub(r"<!--.*?-->", "", form).replace("Fira Code, monospace", FONTS)
    form = re.sub(r"font-family: arial;?", "font-family: sans-serif;", form)
    title = re.sub(r"\x1b\[[0-9;]*m", "", lines[0]).removeprefix("$ ")
    drawing = console.export_svg(title=title, theme=THEME, code_format=form, unique_id="shoal")
    drawing = re.sub(r"[ \t]+$", "", drawing, flags=re.MULTILINE)
    (PICTURES / f"{name}.svg").write_text(f"{drawing.strip()}\n", "utf-8")


# -- the scenes


def scenes() -> Iterator[tuple[str, list[str]]]:
    """The names of the pictures, and what the terminal shows."""
    yield "init", shown("shoal init books")
    os.chdir("books")
    change("books.py", "https://", "http://")
    yield "try", shown("shoal try books.py")
    yield "try-book", shown("shoal try books.py --handler book")
    change("books.py", "    in_stock: bool\n", "    in_stock: bool\n    stars: str\n")
    field = 'stars=page.attr(".product_main .star-rating", "class", "").removeprefix("star-rating ")'
    change("books.py", '.availability"),\n', f'.availability"),\n        {field},\n')
    yield "try-stars", shown("shoal try books.py --handler book")
    shown(f"shoal keep http://{SITE}/catalogue/page-2.html --name page-2")
    yield "check", shown("shoal check books.py")
    yield "crawl-live", shown("shoal crawl books.py", until=pages_done(30))
    yield "crawl-end", shown("shoal crawl books.py")
    yield "rows", shown("shoal rows books -n 8")
    [code] = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    os.mkdir("../readme")
    os.chdir("../readme")
    Path("books.py").write_text(code.replace("https://", "http://"), "utf-8")
    yield "try-readme", shown("shoal try books.py --handler book")
    yield "live", shown("shoal demo", until=pages_done(200))
    yield "demo", shown("shoal demo")


def change(file: str, old: str, new: str) -> None:
    path = Path(file)
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")


def pages_done(number: int) -> Callable[[Screen], bool]:
    """Whether the live view tells of so many pages."""

    def reached(screen: Screen) -> bool:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(screen.shown()))
        whole = plain.rpartition("\n")[2].startswith("╰")
        return whole and any(
            int(done.replace(",", "")) >= number for done in re.findall(r"([\d,]+) of [\d,]+ pages", plain)
        )

    return reached


def shown(command: str, until: Callable[[Screen], bool] = lambda _: False) -> list[str]:
    lines = run(command.removeprefix("shoal "), until)
    here = str(Path.cwd().parent)  # a folder that has gone when somebody looks at the picture
    return [f"\x1b[1m$ {command}\x1b[0m", *(line.replace(here, "~") for line in lines)]


def run_command(words: list[str]) -> int:
    """In a process of its own: the command, for which the site is on this machine."""
    from screenshots import lead_home

    from shoal.cli import run

    lead_home({SITE: f"127.0.0.1:{os.environ.pop(PORT)}"})
    if words[0] not in ("check", "demo"):  # which do not ask the site
        os.environ["SHOAL_ALLOW_NETWORK"] = "127.0.0.0/8"
    return run(words)


def main(wanted: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="shoal-pictures-") as folder, bookshop():
        os.chdir(folder)
        for name, lines in scenes():
            if not wanted or name in wanted:
                draw(name, lines)
                sys.stderr.write(f"{name}.svg: {len(lines)} lines\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        sys.exit(run_command(sys.argv[2:]))
    main(sys.argv[1:])
