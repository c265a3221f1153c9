-- revive: a finished job runs again.
-- asks    { job's number }
-- answers 1
-- keeps   `moves` of the job grows in any case, so that a process that is about to mark it as finished looks again
-- uses    base
though_full()
local said = repeated()
if said then return said end
local job = job_of(ask[1])
if job then
  if job.state == 'finished' then call('HSET', JOB .. ask[1], 'state', 'running', 'finished', 0) end
  call('HINCRBY', JOB .. ask[1], 'moves', 1)
  tell_of_job()
end
return finish('1')
