-- add: admits tasks that are not duplicates, and moves the cursor of a source of start URLs.
-- asks    { job's number, tasks by list, false or { source, fed or -1, fed_all } }
-- answers 'new duplicates over_budget state fates', or 'gone' if there is no such job; the state is that before
-- keeps   admitted = pending + delayed + leased + done + dead + merged; the cursor moves with the tasks it counts; `moves`
--         of the job grows, so that a process that is about to mark it as finished looks again
-- uses    base sources watch domains hosts seen slices admit
local said = repeated()
if said then return said end
local number = ask[1]
local job = job_of(number)
if not job then return 'gone' end
needs_room()
local new, duplicates, over_budget, fates = admit(number, ask[2])
if new > 0 and shards == 1 and job.state == 'finished' and not (job.pages > 0 and job.done >= job.pages) then
  call('HSET', JOB .. number, 'state', 'running', 'finished', 0)
end
if ask[3] then
  move_source(number, unpack(ask[3], 1, 3))
  if ask[3][3] then tell_of_job() end
end
count(number, 'admitted', 0)
sliced.store_slices()
store_hosts()
return finish(table.concat({ new, duplicates, over_budget, job.state, fates }, ' '))
