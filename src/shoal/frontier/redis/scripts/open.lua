-- open: makes the shard, or tells how it was made.
-- asks    { number of this shard, how many there are }
-- answers { how many shards there are, version of the layout or 'upgrading' }
-- full    opens what there is: nothing is written when nothing needs to be
-- keeps   the first word counts: ids and places of hosts depend on the number of shards
-- uses    bare
local known = call('HMGET', facts, 'shard', 'shards', 'layout')
if not before and not (known[1] and known[2] and known[3]) then
  call('HSETNX', META, 'shard', ask[1])
  call('HSETNX', META, 'shards', ask[2])
  call('HSETNX', META, 'layout', LAYOUT)
end
return call('HMGET', facts, 'shards', 'layout')
