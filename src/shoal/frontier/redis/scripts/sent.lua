-- sent: forgets what has arrived at another shard.
-- asks    { that shard, the last number in the sequence that arrived there }
-- answers how much is still on its way
-- uses    base
though_full()
local key = OUT .. ask[1]
local head = call('LINDEX', key, 0)
while head do
  local seq, number, many, moved = unpack_of('>I6I6I4B', head)
  if seq > ask[2] then break end
  call('LPOP', key)
  count(number, moved == 1 and 'out_moved' or 'out_found', -many)
  head = call('LINDEX', key, 0)
end
if not head then call('ZREM', OUTS, ask[1]) end
finish('')
return head and 1 or 0
