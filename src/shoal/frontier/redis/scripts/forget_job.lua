-- forget_job: the first step of dropping a job. From now on it is unknown; what it leaves behind is cleared in steps.
-- asks    { name, number }
-- answers 1
-- keeps   its number stays in `dropped` until everything is cleared
-- uses    base
call('SADD', DROPPED, ask[2])
if call('HGET', JOBS, ask[1]) == tostring(ask[2]) then call('HDEL', JOBS, ask[1]) end
local f = call('HMGET', JOB .. ask[2], 'seen_buckets', 'rows_buckets', 'blocks')
if f[3] then call('HSET', META, 'left:' .. ask[2], (f[1] or 1) .. ' ' .. (f[2] or 1) .. ' ' .. f[3]) end
call('DEL', JOB .. ask[2], DEAD .. ask[2], DEADAT .. ask[2], JOURNALS .. ask[2], WORDS .. ask[2], RESERVED .. ask[2])
return 1
