-- prepare: what a settlement with rows depends on.
-- asks    { tokens, { { job's number, key } … } of rows, job's number, journal's key, name of the writer's turn }
-- answers { '1' or '0' for each token, '1' or '0' for each row: whether it is new, the journal's length or -1 }
-- full    runs
-- keeps   from now on only this turn commits to the journal: a settlement that another turn has prepared before is refused
-- uses    base seen slices
local held, fresh = {}, {}
local records = call_many('HMGET', LEASES, ask[1])
for i = 1, #ask[1] do held[i] = records[i] and '1' or '0' end
for i, row in ipairs(ask[2]) do
  local job = job_of(row[1])
  local known = not job or sliced.has_row(row[1], job, row[2])
  fresh[i] = known and '0' or '1'
end
local journals, turn = JOURNALS .. ask[3], 'turn of ' .. ask[4]
local length = call('HGET', journals, ask[4]) or '-1'
if job_of(ask[3]) and call('HGET', journals, turn) ~= ask[5] then
  though_full()
  call('HSET', journals, turn, ask[5])
end
return { table.concat(held), table.concat(fresh), length }
