-- set_state: running, paused, finished or cancelled.
-- asks    { number, state, when it finished (0: it has not; -1: no change), only if it is in this state or '', and only if
--         `moves` has this value or -1 }
-- answers 1, or 0 if there is no such job, it is in another state, or `moves` has grown
-- uses    base
though_full()
local said = repeated()
if said then return said end
local job = job_of(ask[1])
if not job or (ask[4] ~= '' and job.state ~= ask[4]) then return finish('0') end
if ask[5] >= 0 and tonumber(call('HGET', JOB .. ask[1], 'moves')) ~= ask[5] then return finish('0') end
call('HSET', JOB .. ask[1], 'state', ask[2])
if ask[3] >= 0 then call('HSET', JOB .. ask[1], 'finished', ask[3]) end
call('HINCRBY', JOB .. ask[1], 'moves', 1)
tell_of_job()
return finish('1')
