-- forget_job: the first step of dropping or pruning a job. From now on it is unknown; its data is deleted in steps.
-- asks    { name, number, false }, or to prune it, in the home shard first,
--         { name, number, { state, when it was created, when it ended, its past, how many pasts are kept } }
-- answers 1, or 0 if the job has changed
-- keeps   its number stays in `dropped` until all its data is deleted
-- uses    base seen
though_full()
local name, number, prune = unpack(ask, 1, 3)

local function remember()
  local state, created, ended, past, most = unpack(prune, 1, 5)
  local known = call('HMGET', JOB .. number, 'state', 'created', 'finished')
  if not known[1] then return call('HGET', PAST, name) == past end  -- it is done already, and the answer got lost
  if known[1] ~= state or tonumber(known[2]) ~= created or (tonumber(known[3]) or 0) ~= ended then return false end
  call('HSET', PAST, name, past)
  call('ZADD', PASTAT, now, name)
  local oldest = call('ZRANGE', PASTAT, 0, -most - 1)
  if #oldest > 0 then
    call('HDEL', PAST, unpack(oldest))
    call('ZREM', PASTAT, unpack(oldest))
  end
  return true
end

if prune and not remember() then return 0 end
call('SADD', DROPPED, number)
if name == '' then name = call('HGET', JOB .. number, 'name') or '' end
if call('HGET', JOBS, name) == tostring(number) then call('HDEL', JOBS, name) end
local job = job_of(number)
if job then
  local filters = job.blocks > 0 and filters_of(job) or { { 0, 0 } }
  local last = filters[#filters]
  local left = { job.seen_buckets, job.rows_buckets, last[1] + last[2] }
  call('HSET', META, 'left:' .. number, table.concat(left, ' '))
  for at in string.gmatch(job.slices or '', '%d+') do
    local id = number .. '.' .. at
    local buckets = call('HMGET', JOB .. id, 'seen_buckets', 'rows_buckets', 'seen')
    local slice = { seen = tonumber(buckets[3]) or 0, blocks = math.ceil(job.blocks / 4), bits = 18 }  -- as in slices.lua
    last = slice.blocks > 0 and filters_of(slice) or { { 0, 0 } }
    last = last[#last]
    call('HSET', META, 'left:' .. id, (buckets[1] or 1) .. ' ' .. (buckets[2] or 1) .. ' ' .. last[1] + last[2])
    call('DEL', JOB .. id)
    call('UNLINK', RESERVED .. id)
  end
  if job.slices then call('HSET', META, 'sliced:' .. number, job.slices) end
end
call('UNLINK', MERGED .. number)
call('DEL', JOB .. number, DEAD .. number, DEADAT .. number, JOURNALS .. number, WORDS .. number, RESERVED .. number)
tell_of_job()
return 1
