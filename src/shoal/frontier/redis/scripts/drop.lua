-- drop: deletes dead letters; their tasks stay in the seen-set, and count as dead.
-- asks    { job's number, { id … } }
-- answers how many were there
-- uses    base
though_full()
local said = repeated()
if said then return said end
local dropped = call('HDEL', DEAD .. ask[1], unpack(ask[2]))
call('ZREM', DEADAT .. ask[1], unpack(ask[2]))
return finish(tostring(dropped))
