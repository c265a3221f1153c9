"""Serves the shop until standard input closes: `python -m shoal.testing.shop [--products N] [--port N]`.

Prints one line, its URL. What visitors did is at /_log, as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from typing import IO

import msgspec
import uvloop
from msgspec import structs

from shoal.testing.shop.paths import ShopSpec
from shoal.testing.shop.server import Shop


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m shoal.testing.shop", description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, help="how many; 300 without it")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; a free one without it")
    parser.add_argument("--spec", metavar="JSON", default="{}", help="fields of a ShopSpec")
    arguments = parser.parse_args()
    try:
        spec = msgspec.json.decode(arguments.spec, type=ShopSpec)
    except msgspec.DecodeError as error:
        parser.error(f"--spec: {error}")
    if arguments.products is not None:
        spec = structs.replace(spec, products=arguments.products)
    # Unbuffered: a thread that waits in a buffered reader holds its lock, and the interpreter could not end.
    with open(0, "rb", buffering=0) as lines:
        try:
            uvloop.run(_serve(spec, arguments.port, lines))
        except KeyboardInterrupt:
            pass
        except OSError as error:
            parser.error(f"port {arguments.port}: {error.strerror}")


async def _serve(spec: ShopSpec, port: int, lines: IO[bytes]) -> None:
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    def read() -> None:
        for _ in lines:
            pass
        loop.call_soon_threadsafe(closed.set)

    async with Shop(spec, port=port) as shop:
        sys.stdout.write(shop.url + "\n")
        sys.stdout.flush()
        threading.Thread(target=read, daemon=True).start()
        await closed.wait()


if __name__ == "__main__":
    main()
