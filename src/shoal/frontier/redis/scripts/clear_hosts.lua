-- clear_hosts: removes one page of hosts from the lines of a dropped job, and deletes their lists.
-- asks    { job's number }
-- answers how many hosts there were; 0: all are cleared, and the job's lines are gone
-- uses    base watch domains hosts
though_full()
local number = ask[1]
local names = call('HRANDFIELD', JOBHOSTS .. number, 200)

load_hosts(names)
for _, name in ipairs(names) do
  local host = hosts[name]
  local at = FIRST
  while host and host[at] do
    if job_of_line(host[at]) == number then
      touched[name] = host

      call('UNLINK', list_key(host[at], host[at + 1]) .. name)
      shorten(name, host, at, host[at + 2])
    else
      at = at + 3
    end
  end
end
if #names > 0 then call_many('HDEL', JOBHOSTS .. number, names) end
if next(touched) then
  store_hosts()
  finish('')
end
if #names == 0 then
  for _, lane in ipairs(call('HVALS', LANES)) do
    local line = number * LANES_PER_JOB + lane
    call('UNLINK', DUE .. line, LINE .. line, PLACES .. line, CROWDS .. line)
  end
end
return #names
