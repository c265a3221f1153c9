-- reserve: reserves the key of a row for the first task that asks; only with several shards.
-- asks    { job's number, { key, task's id, key, task's id … } }
-- answers '1' or '0' for each: whether that task may write the row
-- keeps   a row with a key is written by one task of the job. A task that runs again, after a crash before its settlement or
--         because its shard went back, may write its row again
-- uses    base seen slices
though_full()
local job, may = job_of(ask[1]), {}
for i = 1, #ask[2], 2 do
  local row, id = ask[2][i], string.format('%.0f', ask[2][i + 1])
  local owner, key = sliced.reserved_in(ask[1], job, row)
  if not owner then call('HSET', key, row, id) end
  may[#may + 1] = (not owner or owner == id) and '1' or '0'
end
sliced.store_slices()
return table.concat(may)
