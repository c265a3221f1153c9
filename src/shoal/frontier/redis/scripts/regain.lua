-- regain: the home shard notes how much of a job's page budget a shard has given back.
-- asks    { job's number, shard, given back in all its life }
-- answers 1
-- uses    base
though_full()
local key, field = JOB .. ask[1], 'from:' .. ask[2]
if not job_of(ask[1]) then return 1 end
local known = tonumber(call('HGET', key, field)) or 0
if ask[3] > known then
  call('HINCRBY', key, 'outstanding', known - ask[3])
  call('HSET', key, field, ask[3])
end
return 1
