-- leave: deletes workers that have ended.
-- asks    { worker … }
-- answers 1
-- uses    base
though_full()
call('ZREM', ALIVE, unpack(ask))
call('HDEL', STATUS, unpack(ask))
return 1
