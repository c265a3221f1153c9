-- add: admits tasks that are not duplicates, and moves the start cursor.
-- asks    { job's number, tasks by list, fed or -1, fed_all }
-- answers 'new duplicates over_budget', or 'gone' if there is no such job
-- keeps   admitted = pending + delayed + leased + done + dead + merged; the cursor moves with the tasks it counts
-- uses    base domains hosts seen admit
local said = repeated()
if said then return said end
local number = ask[1]
if not job_of(number) then return 'gone' end
local new, duplicates, over_budget = admit(number, ask[2])
if ask[3] >= 0 then call('HSET', JOB .. number, 'fed', ask[3]) end
if ask[4] then call('HSET', JOB .. number, 'fed_all', 1) end
count(number, 'admitted', 0)
store_hosts()
return finish(new .. ' ' .. duplicates .. ' ' .. over_budget)
