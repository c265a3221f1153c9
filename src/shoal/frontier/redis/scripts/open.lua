-- open: creates the shard, or tells how it was created.
-- asks    { number of this shard, how many there are }
-- answers { how many shards there are, version of the layout or 'upgrading' }
-- full    opens an existing shard: nothing is written if nothing has to change
-- keeps   the number of shards never changes: ids and the shards of hosts depend on it
-- uses    bare
local known = call('HMGET', facts, 'shard', 'shards', 'layout')
if not before and not (known[1] and known[2] and known[3]) then
  call('HSETNX', META, 'shard', ask[1])
  call('HSETNX', META, 'shards', ask[2])
  call('HSETNX', META, 'layout', LAYOUT)
end
return call('HMGET', facts, 'shards', 'layout')
