-- extend: moves the deadlines of the worker's leases in this shard; the home shard also notes its heartbeat.
-- asks    { worker, seconds, status or false, tokens of the leases that it works on or false for all }
-- answers how many of them it holds here
-- keeps   a lease that its worker does not name runs out
-- uses    base
though_full()
local worker, seconds, tokens = ask[1], ask[2], ask[4]
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
local key, deadlines = HELD .. worker, {}
tokens = tokens or call('ZRANGE', key, 0, -1)
local known = call_many('ZMSCORE', key, tokens)
local held = 0
for i = 1, #tokens do
  if known[i] then
    held = held + 1
    if tonumber(known[i]) < now + seconds then deadlines[#deadlines + 1], deadlines[#deadlines + 2] = until_, tokens[i] end  -- never sooner
  end
end
call_many('ZADD', key, deadlines, 2)
local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
if first[2] then
  call('ZADD', HOLDERS, first[2], worker)
else
  call('ZREM', HOLDERS, worker)
end
call('HSET', META, 'time', now)
return held
