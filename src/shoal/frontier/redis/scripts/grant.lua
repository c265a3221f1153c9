-- grant: the home shard gives a shard a part of a job's page budget.
-- asks    { job's number, shard, how many it could use }
-- answers how many pages the shard has been granted in all its life
-- keeps   the pages granted to all shards, less those given back, never exceed the budget
-- uses    base
though_full()
local said = repeated()
if said then return said end
local job, key = job_of(ask[1]), JOB .. ask[1]
if not job then return '0' end
local free = job.pages - (tonumber(call('HGET', key, 'outstanding')) or 0)
if free > 0 then
  local many = min(free, max(ask[3], floor(free / (4 * shards))))
  call('HINCRBY', key, 'outstanding', many)
  call('HINCRBY', key, 'to:' .. ask[2], many)
end
return finish(call('HGET', key, 'to:' .. ask[2]) or '0')
