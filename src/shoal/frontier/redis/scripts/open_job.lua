-- open_job: creates the job in this shard, or updates what the shard knows of it.
-- asks    { name, number or 0 (the home shard gives one), spec, attempts, pages, per_host, valve, blocks of its
--         Bloom filter or 0, limit of a domain, created or 0, source of start URLs to open or false, also if it was fed,
--         seconds after which a page may be seen again or 0 }
-- answers the job's number
-- keeps   a number is never given twice, so data of a dropped job belongs to no other job
-- uses    base sources
local said = repeated()
if said then return said end
local name, number = ask[1], ask[2]
if call('HEXISTS', JOBS, name) == 1 then though_full() end
if number == 0 then
  number = tonumber(call('HGET', JOBS, name)) or call('HINCRBY', META, 'jobs', 1)
end
local key = JOB .. number
call('HSET', JOBS, name, number)
call('HSET', key, 'name', name, 'spec', ask[3], 'state', 'running', 'attempts', ask[4], 'pages', ask[5],
  'per_host', ask[6], 'valve', ask[7], 'domain', ask[9])
call('HSETNX', key, 'created', ask[10] > 0 and ask[10] or now)
call('HSETNX', key, 'blocks', ask[8])  -- the kind of dedupe cannot change later, nor its slices
call('HSETNX', key, 'expires', ask[13])
if ask[11] then open_source(number, ask[11], ask[12]) end
call('HINCRBY', key, 'moves', 1)
tell_of_job()
return finish(tostring(number))
