"""Serves the shops until standard input closes: `python -m shoal.testing.shops [--shops N] [--products N]`.

Prints one line, their URLs by name, as JSON. Who visited them is at /_log, as JSON.
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

from shoal.testing.shops.server import Shops, ShopsSpec


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m shoal.testing.shops", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--shops", type=int, help="how many; 50 without it")
    parser.add_argument("--products", type=int, help="in each; 40 without it")
    parser.add_argument("--spec", metavar="JSON", default="{}", help="fields of a ShopsSpec")
    arguments = parser.parse_args()
    try:
        spec = msgspec.json.decode(arguments.spec, type=ShopsSpec)
    except msgspec.DecodeError as error:
        parser.error(f"--spec: {error}")
    given = {name: getattr(arguments, name) for name in ("shops", "products")}
    spec = structs.replace(spec, **{name: value for name, value in given.items() if value is not None})
    # Unbuffered: a thread that waits in a buffered reader holds its lock, and the interpreter could not end.
    with open(0, "rb", buffering=0) as lines:
        try:
            uvloop.run(_serve(spec, lines))
        except KeyboardInterrupt:
            pass


async def _serve(spec: ShopsSpec, lines: IO[bytes]) -> None:
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    def read() -> None:
        for _ in lines:
            pass
        loop.call_soon_threadsafe(closed.set)

    async with Shops(spec) as shops:
        addresses = {front.plan.name: front.base for front in shops.fronts}
        sys.stdout.write(msgspec.json.encode(addresses).decode() + "\n")
        sys.stdout.flush()
        threading.Thread(target=read, daemon=True).start()
        await closed.wait()


if __name__ == "__main__":
    main()
