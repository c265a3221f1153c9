-- rest: a worker wants nothing for now, or for ever. If it was its turn to look, it is another one's.
-- asks    nothing
-- answers 1
-- uses    base watch
though_full()
rest()
return 1
