-- word: the small number that stands for a handler's name in a job's tasks.
-- asks    { job's number, name, the number that the caller knows or 0 }
-- answers the number
-- keeps   a number stands for one name as long as the job lives, even if the shard goes back
-- uses    base
local key = WORDS .. ask[1]
local number, known = tonumber(call('HGET', key, ask[2])), ask[3]
if number and known ~= 0 and number ~= known then call('HSET', key, ask[2] .. '\0' .. known, known) end
if not number then
  though_full()
  number = known
  if number == 0 then number = call('HLEN', key) + 1 + (tonumber(call('HGET', META, 'words')) or 0) end
  if job_of(ask[1]) then call('HSET', key, ask[2], number) end
end
return number
