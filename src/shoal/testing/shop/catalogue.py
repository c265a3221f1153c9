"""What the shop sells, the same for the same number: products, their variants, stock and files."""

from __future__ import annotations

import hashlib
import random
import struct
import zlib
from functools import lru_cache

from msgspec import Struct

PER_PAGE = 20  # products on a page of the listing
PER_CALL = 50  # entries in an answer of the API
_COLOURS = ("red", "green", "blue", "black", "white", "grey")
_SIZES = ("S", "M", "L", "XL")
_NAMES = ("Lamp", "Chair", "Table", "Shelf", "Clock", "Mirror", "Basket", "Stool", "Desk", "Vase")
_EVERY_FILE, _EVERY_SOLD_OUT, _EVERY_CLEARANCE = 5, 25, 12
_CACHED_FILES = 256


class Variant(Struct, frozen=True):
    sku: str
    colour: str
    size: str
    price: str


class ShopFile(Struct, frozen=True):
    path: str  # on the server
    name: str  # as Content-Disposition has it
    media_type: str
    size: int
    sha256: str


class Product(Struct, frozen=True):
    number: int
    sku: str
    name: str
    price: str
    variants: tuple[Variant, ...]
    files: tuple[ShopFile, ...]


class Catalogue(Struct, frozen=True):
    """Products 0 to `products` - 1. Most are in the listing; the search alone finds those on sale."""

    products: int = 300
    file_bytes: int = 60_000  # of a PDF, about

    def product(self, number: int) -> Product:
        sku = f"P-{number:04}"
        cents = 500 + number * 37 % 9_500
        combinations = [(colour, size) for colour in _COLOURS for size in _SIZES]
        chosen = random.Random(number).sample(combinations, 2 + number % 9)
        variants = tuple(
            Variant(f"{sku}-{place}", colour, size, _price(cents + 100 * place))
            for place, (colour, size) in enumerate(chosen)
        )
        files = tuple(self._file(number, which) for which in ("manual", "1.png", "2.png"))
        name = f"{_NAMES[number % len(_NAMES)]} {number}"
        return Product(number, sku, name, _price(cents), variants, files if self.has_files(number) else ())

    def page_of_variants(self, number: int, page: int) -> tuple[Variant, ...]:
        """The first or the second half."""
        variants = self.product(number).variants
        half = (len(variants) + 1) // 2
        return variants[:half] if page == 1 else variants[half:]

    def stock(self, number: int) -> int:
        return number * 7_919 % 100

    def has_files(self, number: int) -> bool:
        return number % _EVERY_FILE == 0

    def sells_out(self, number: int) -> bool:
        return number % _EVERY_SOLD_OUT == 7

    def listed(self) -> list[int]:
        return [n for n in range(self.products) if n % _EVERY_CLEARANCE != 3]

    def clearance(self) -> list[int]:
        return [n for n in range(self.products) if n % _EVERY_CLEARANCE == 3]

    def all_products(self) -> list[Product]:
        return [self.product(number) for number in range(self.products)]

    def all_files(self) -> list[ShopFile]:
        return [file for product in self.all_products() for file in product.files]

    def content(self, number: int, which: str) -> bytes:
        """The bytes of a file. The second image is the same for ten products in a row."""
        if which == "manual":
            return _pdf(number, self.file_bytes)
        return _png(number if which == "1.png" else 10_000 + number // 10)

    def _file(self, number: int, which: str) -> ShopFile:
        path, body = f"/files/{number}/{which}", self.content(number, which)
        kind = "application/pdf" if which == "manual" else "image/png"
        name = f"manual P-{number:04} – ä.pdf" if which == "manual" else f"P-{number:04}-{which}"
        return ShopFile(path, name, kind, len(body), hashlib.sha256(body).hexdigest())


def _price(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


@lru_cache(_CACHED_FILES)
def _pdf(number: int, size: int) -> bytes:
    body = random.Random(number).randbytes(size + number * 101 % 1_000)
    return b"%PDF-1.7\n% shop\n" + body + b"\n%%EOF\n"


@lru_cache(_CACHED_FILES)
def _png(seed: int) -> bytes:
    """A square of noise that image programs can read."""
    side, noise = 48, random.Random(seed)
    rows = b"".join(b"\x00" + noise.randbytes(3 * side) for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(rows)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
