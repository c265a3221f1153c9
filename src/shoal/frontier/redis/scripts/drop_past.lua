-- drop_past: deletes what is left of a job that was pruned.
-- asks    { name }
-- answers 1
-- uses    base
though_full()
call('HDEL', PAST, ask[1])
call('ZREM', PASTAT, ask[1])
return 1
