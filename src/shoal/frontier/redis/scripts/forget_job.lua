-- forget_job: the first step of dropping a job. From now on it is unknown; what it leaves behind is cleared in steps.
-- asks    { name, number }
-- answers 1
-- keeps   its number stays in `dropped` until everything is cleared
-- uses    base seen
though_full()
call('SADD', DROPPED, ask[2])
if call('HGET', JOBS, ask[1]) == tostring(ask[2]) then call('HDEL', JOBS, ask[1]) end
local job = job_of(ask[2])
if job then
  local filters = job.blocks > 0 and filters_of(job) or { { 0, 0 } }
  local last = filters[#filters]
  local left = { job.seen_buckets, job.rows_buckets, last[1] + last[2] }
  call('HSET', META, 'left:' .. ask[2], table.concat(left, ' '))
end
call('UNLINK', MERGED .. ask[2])
call('DEL', JOB .. ask[2], DEAD .. ask[2], DEADAT .. ask[2], JOURNALS .. ask[2], WORDS .. ask[2], RESERVED .. ask[2])
return 1
