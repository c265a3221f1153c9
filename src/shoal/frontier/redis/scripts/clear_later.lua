-- clear_later: deletes delayed tasks of a dropped job. Those that wait for their next visit would stay for very long.
-- asks    { job's number, names of hosts, where to begin among the delayed tasks of the first }
-- answers { how many of the hosts are cleared, where to go on in the next one }
-- uses    base watch domains hosts leases
though_full()
local number, names, at = unpack(ask, 1, 3)
local left_ = 2000  -- tasks in one script
local done = 0

-- Returns where to go on; false: the host is cleared.
local function clear(name, first)
  local key = LATER .. name
  while left_ > 0 do
    local page, gone = call('ZRANGE', key, first, first + min(left_, 500) - 1), {}
    for _, entry in ipairs(page) do
      if job_of_line((read_delayed(entry))) == number then gone[#gone + 1] = entry end
    end
    if #gone > 0 then call_many('ZREM', key, gone) end
    left_, first = left_ - max(1, #page), first + #page - #gone
    if #page == 0 then return false end
  end
  return first
end

local rest_at = 0
while names[done + 1] do
  rest_at = clear(names[done + 1], done == 0 and at or 0)
  if rest_at then break end
  if call('EXISTS', LATER .. names[done + 1]) == 0 then call('ZREM', DELAYED, names[done + 1]) end
  done = done + 1
end
return { done, rest_at or 0 }
