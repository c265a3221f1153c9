-- add: admits tasks that are not duplicates, and moves the cursor of a source of start URLs.
-- asks    { job's number, tasks by list, false or { source, fed or -1, fed_all } }
-- answers 'new duplicates over_budget', or 'gone' if there is no such job
-- keeps   admitted = pending + delayed + leased + done + dead + merged; the cursor moves with the tasks it counts
-- uses    base sources domains hosts seen admit
local said = repeated()
if said then return said end
local number = ask[1]
if not job_of(number) then return 'gone' end
needs_room()
local new, duplicates, over_budget = admit(number, ask[2])
if ask[3] then move_source(number, unpack(ask[3], 1, 3)) end
count(number, 'admitted', 0)
store_hosts()
return finish(new .. ' ' .. duplicates .. ' ' .. over_budget)
