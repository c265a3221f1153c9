-- extend: moves the deadline of all the worker's leases in this shard; the home shard also notes its sign of life.
-- asks    { worker, seconds, status or false }
-- answers how many leases it holds here
-- uses    base
though_full()
local worker, seconds = ask[1], ask[2]
local until_ = string.format('%.17g', now + seconds)
if ask[3] then
  local gone = call('ZRANGEBYSCORE', ALIVE, '-inf', now, 'LIMIT', 0, 100)
  if #gone > 0 then
    call('ZREM', ALIVE, unpack(gone))
    call('HDEL', STATUS, unpack(gone))
  end
  call('ZADD', ALIVE, until_, worker)
  call('HSET', STATUS, worker, pack('<d', now) .. ask[3])
end
local held = call('SCARD', HELD .. worker)
if held > 0 then
  call('HSET', EXTENDED, worker, pack('<dd', token * shards + shard, now + seconds))
  call('ZADD', HOLDERS, until_, worker)
else
  call('HDEL', EXTENDED, worker)
  call('ZREM', HOLDERS, worker)
end
call('HSET', META, 'time', now)
return held
