-- word: the small number that stands for a handler's name in a job's tasks.
-- asks    { job's number, name, the number that it has had or 0 }
-- answers the number
-- keeps   a number stands for one name for as long as the job lives, also where the shard has gone back
-- uses    base
local key = WORDS .. ask[1]
local number, had = tonumber(call('HGET', key, ask[2])), ask[3]
if number and had ~= 0 and number ~= had then call('HSET', key, ask[2] .. '\0' .. had, had) end
if not number then
  though_full()
  number = had
  if number == 0 then number = call('HLEN', key) + 1 + (tonumber(call('HGET', META, 'words')) or 0) end
  if job_of(ask[1]) then call('HSET', key, ask[2], number) end
end
return number
