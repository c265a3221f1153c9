-- word: the small number that stands for a handler's name in a job's tasks.
-- asks    { job's number, name }
-- answers the number
-- keeps   a number stands for one name for as long as the job lives
-- uses    base
local key = WORDS .. ask[1]
local number = tonumber(call('HGET', key, ask[2]))
if not number then
  though_full()
  number = call('HLEN', key) + 1
  call('HSET', key, ask[2], number)
end
return number
