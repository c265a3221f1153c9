-- clear_sets: deletes one page of a dropped job's sets of seen URLs and rows.
-- asks    { job's number }
-- answers how many buckets are left; 0: nothing of the job is left in this shard
-- uses    base
though_full()
local number = ask[1]
local part, slices = number, call('HGET', META, 'sliced:' .. number)
local left = call('HGET', META, 'left:' .. part)
if not left and slices then  -- then its slices, one after the other
  local at, others = string.match(slices, '^(%d+) ?(.*)$')
  if at then
    part = number .. '.' .. at
    left = call('HGET', META, 'left:' .. part)
    if not left then call('HSET', META, 'sliced:' .. number, others) end
  else
    call('HDEL', META, 'sliced:' .. number)
    slices = false
  end
end
if not left then
  if slices then return 1 end
  call('SREM', DROPPED, number)
  return 0
end
local kinds = { SEEN, ROWS, BLOOM }
local counts_left, page = { string.match(left, '(%d+) (%d+) (%d+)') }, 500
local total = 0
for kind, prefix in ipairs(kinds) do
  local n = tonumber(counts_left[kind])
  while n > 0 and page > 0 do
    n, page = n - 1, page - 1
    call('UNLINK', prefix .. part .. ':' .. n)
  end
  counts_left[kind], total = n, total + n
end
if total > 0 then
  call('HSET', META, 'left:' .. part, table.concat(counts_left, ' '))
else
  call('HDEL', META, 'left:' .. part)
end
return total + 1
