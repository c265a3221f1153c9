-- allow: a shard learns how many pages it has been granted; on request it gives back what it does not use.
-- asks    { job's number, granted in all its life, whether to give back }
-- answers how many it has given back in all its life
-- keeps   all numbers only grow, so a late or repeated call changes nothing
-- uses    base watch
though_full()
local job, key = job_of(ask[1]), JOB .. ask[1]
if not job then return 0 end
local granted = max(job.granted, ask[2])
local returned = job.returned
if ask[3] then returned = max(returned, granted - job.done - job.leased) end
call('HSET', key, 'granted', granted, 'returned', returned)
if granted > job.granted then
  due_in_job(ask[1])
  finish('')
end
return returned
