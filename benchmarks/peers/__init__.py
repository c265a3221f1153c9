"""What does a page cost? Shoal beside its peers and two bare loops, in turns, on one machine.

    python -m benchmarks.peers                     all, three rounds: about 22 minutes on two quiet cores
    python -m benchmarks.peers --write             … and puts tables and plots into docs/
    python -m benchmarks.peers --shapes links tls --only aiohttp shoal --rounds 5

The site is on loopback, in a process that is not counted. A run counts only if its server was asked for every page,
and the output has one right row for each. CPU seconds are user and system time of the crawler and all processes that
come of it, start of the interpreter included; Valkey's are counted apart. docs/peers.md shows a run.
"""
