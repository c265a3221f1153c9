-- open: makes the shard, or tells how it was made.
-- asks    { number of this shard, how many there are, version of the layout, the oldest that can be read }
-- answers { how many shards there are, version of the layout }
-- keeps   the first word counts: ids and places of hosts depend on the number of shards
-- uses    base
call('HSETNX', META, 'shard', ask[1])
call('HSETNX', META, 'shards', ask[2])
call('HSETNX', META, 'layout', ask[3])
local layout = tonumber(call('HGET', META, 'layout'))
if layout < ask[3] and layout >= ask[4] then call('HSET', META, 'layout', ask[3]) end
return call('HMGET', META, 'shards', 'layout')
