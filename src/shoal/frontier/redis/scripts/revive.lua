-- revive: a finished job runs again.
-- asks    { job's number }
-- answers 1
-- keeps   the job has moved, also if it was not finished: whoever is about to say that it is looks again
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
