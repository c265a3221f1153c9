-- replay: makes dead tasks and rejected items pending again, with all their attempts.
-- asks    { job's number, { id … } }
-- answers how many were there
-- uses    base watch domains hosts
though_full()
local said = repeated()
if said then return said end
local number, ids, replayed, items = ask[1], ask[2], 0, 0
local job = job_of(number)
local letters = job and call_many('HMGET', DEAD .. number, ids) or {}
for i = #ids, 1, -1 do
  if letters[i] then
    local _, line, priority, kind, name, item = unpack_of('<dI6i4Hc0Hc0I4c0', letters[i])
    put_back(name, job, line, priority, sub(item, 1, 12) .. '\0' .. sub(item, 14))
    replayed = replayed + 1
    if kind == 'rejected' and sub(name, 1, 9) == 'items of ' then items = items + 1 end
  end
end
if replayed > 0 then
  call_many('HDEL', DEAD .. number, ids)
  call_many('ZREM', DEADAT .. number, ids)
  count(number, 'dead', items - replayed)
  count(number, 'rejected', -items)
  count(number, 'admitted', items)
  store_hosts()
end
return finish(tostring(replayed))
