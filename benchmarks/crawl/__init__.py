"""What Shoal's own parts cost: the bare loop, Shoal, Shoal with three item hooks, Shoal that archives; in turns.

The site, the measuring and the checks are those of benchmarks/peers, which has the other crawlers, too. CPU seconds
include the start of the interpreter; so the cost of starting alone, measured on a site of one page, stands beside it.
"""
