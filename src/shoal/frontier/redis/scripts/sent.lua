-- sent: keeps entries that another shard has got for a while, in case it goes back.
-- asks    { that shard, the last number in the sequence that arrived there }
-- answers 1 if more entries wait, else 0
-- keeps   at most MOST_KEPT bytes: the oldest entries are deleted first
-- uses    base
though_full()
local MOST_KEPT = 16 * 2 ^ 20  -- bytes
local key, kept, size_of_kept = OUT .. ask[1], KEPT .. ask[1], KEPT .. ask[1] .. ':size'
local head, size, last = call('LINDEX', key, 0), tonumber(call('GET', size_of_kept)) or 0
while head do
  local seq, number, many, moved = unpack_of('>I6I6I4B', head)
  if seq > ask[2] then break end
  call('LPOP', key)
  count(number, moved == 1 and 'out_moved' or 'out_found', -many)
  call('ZADD', kept, seq, pack('>d', now) .. head)
  size, last = size + #head, seq
  head = call('LINDEX', key, 0)
end
if not head then call('ZREM', OUTS, ask[1]) end
if last then
  call('HSET', META, 'sent:' .. ask[1], last)
  while true do
    local oldest = call('ZRANGE', kept, 0, 0)[1]
    if not oldest or (size <= MOST_KEPT and unpack_of('>d', oldest) >= now - RETAINED) then break end
    call('ZREM', kept, oldest)
    size = size - #oldest + 8
  end
  call('EXPIRE', kept, RETAINED)
  call('SET', size_of_kept, size, 'EX', RETAINED)
end
finish('')
return head and 1 or 0
