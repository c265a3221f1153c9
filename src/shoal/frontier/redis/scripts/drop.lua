-- drop: deletes dead letters; their tasks stay in the seen-set, and count as dead. Rejected items count no more.
-- asks    { job's number, { id … } }
-- answers how many were there
-- uses    base
though_full()
local said = repeated()
if said then return said end
local items = 0
for _, letter in ipairs(call_many('HMGET', DEAD .. ask[1], ask[2])) do
  if letter then
    local _, _, _, kind, name = unpack_of('<dI6i4Hc0Hc0', letter)
    if kind == 'rejected' and sub(name, 1, 9) == 'items of ' then items = items + 1 end
  end
end
count(ask[1], 'rejected', -items)
local dropped = call('HDEL', DEAD .. ask[1], unpack(ask[2]))
call('ZREM', DEADAT .. ask[1], unpack(ask[2]))
return finish(tostring(dropped))
