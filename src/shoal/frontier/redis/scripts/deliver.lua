-- deliver: admits tasks that settlements in another shard found for this one.
-- asks    { shard it comes from, { { number in its sequence, job's number, moved, payload } … }, the number before these }
-- answers 'new duplicates over_budget', or 'gap' if this shard has lost entries before these
-- keeps   an entry is admitted once, however often it is delivered
-- uses    base watch domains hosts seen slices admit arrive
though_full()
local said = repeated()
if said then return said end
local last = tonumber(call('HGET', META, 'in:' .. ask[1])) or 0
if ask[3] > last then return 'gap' end
local new, duplicates, over_budget = 0, 0, 0
for _, entry in ipairs(ask[2]) do
  local seq, number, moved, payload = unpack(entry, 1, 4)
  if seq > last then
    last = seq
    local job = job_of(number)
    if job and moved then
      arrive(number, job, cmsgpack.unpack(payload))
    elseif job then
      local n, d, o = admit(number, cmsgpack.unpack(payload))
      new, duplicates, over_budget = new + n, duplicates + d, over_budget + o
    end
  end
end
call('HSET', META, 'in:' .. ask[1], last)
store_grown()
sliced.store_slices()
if next(touched) then store_hosts() end
return finish(new .. ' ' .. duplicates .. ' ' .. over_budget)
