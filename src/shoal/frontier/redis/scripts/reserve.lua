-- reserve: reserves the key of a row for the first task that asks; only with several shards.
-- asks    { job's number, { key, task's id, key, task's id … } }
-- answers '1' or '0' for each: whether that task may write the row
-- keeps   a row with a key is written by one task of the job. A task that runs again, after a crash before its settlement or
--         because its shard went back, may write its row again
-- uses    base
though_full()
local key, may = RESERVED .. ask[1], {}
for i = 1, #ask[2], 2 do
  local row, id = ask[2][i], string.format('%.0f', ask[2][i + 1])
  if call('HSETNX', key, row, id) == 1 then
    may[#may + 1] = '1'
  else
    may[#may + 1] = call('HGET', key, row) == id and '1' or '0'
  end
end
return table.concat(may)
