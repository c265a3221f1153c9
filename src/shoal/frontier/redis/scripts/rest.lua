-- rest: a process wants no tasks for now, or for ever. If it was the watcher of its group, another one becomes it.
-- asks    nothing
-- answers 1
-- uses    base watch
though_full()
rest()
return 1
