"""In which order the tests run: long ones first, dealt out evenly to the processes, the short ones last.

pytest-xdist gives each process one stretch of the list, and who is done takes over from the end of another's stretch.
In the order of the folders one process would get most of the long tests, and the last few of them would hold up the
run. The tests of a module stay together: they share what is costly to make.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

# Seconds that a test of the folder takes, roughly; those that are not listed are short.
_SECONDS = {
    "attacks": 2,
    "crash": 4,
    "docs": 0.5,
    "e2e": 1,
    "integration": 0.5,
    "simulation": 3,
    "stateful": 15,
}


def deal(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """One stretch after the other, each as long as xdist cuts it."""
    modules: dict[str, list[pytest.Item]] = defaultdict(list)
    short = []
    for item in items:
        if _seconds(item):
            modules[item.location[0]].append(item)
        else:
            short.append(item)
    hands = _hands(list(modules.values()), processes)
    short.reverse()  # so that they are taken from the end in their order
    dealt: list[pytest.Item] = []
    for left in range(processes, 0, -1):
        size = (len(items) - len(dealt)) // left
        hand = hands.pop(0)
        fill = [short.pop() for _ in range(min(len(short), size - len(hand)))]
        dealt += hand + fill
    return dealt + short[::-1]


def _hands(modules: list[list[pytest.Item]], processes: int) -> list[list[pytest.Item]]:
    hands: list[list[pytest.Item]] = [[] for _ in range(processes)]
    loads = [0.0] * processes
    for module in sorted(modules, key=_cost, reverse=True):
        least = loads.index(min(loads))
        hands[least] += module
        loads[least] += _cost(module)
    return hands


def _cost(module: list[pytest.Item]) -> float:
    return sum(_seconds(item) for item in module)


def _seconds(item: pytest.Item) -> float:
    return max((_SECONDS.get(part, 0) for part in item.path.parts[-4:]), default=0)
