-- list_jobs: the jobs of this shard, each with a number that grows with every change of it.
-- asks    { state, or '' for all }
-- answers { number, moves, number, moves … }
-- keeps   nothing changes
-- uses    base
local answer = {}
for _, number in ipairs(call('HVALS', JOBS)) do
  local known = call('HMGET', JOB .. number, 'state', 'moves')
  if ask[1] == '' or known[1] == ask[1] then
    answer[#answer + 1] = number
    answer[#answer + 1] = known[2] or '0'
  end
end
return answer
