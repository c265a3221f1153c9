-- prepare: what a settlement with rows would meet now.
-- asks    { tokens, { { job's number, key } … } of rows, job's number, journal's key }
-- answers { '1' or '0' for each token, '1' or '0' for each row: whether it is new, the journal's length or -1 }
-- keeps   nothing changes
-- uses    base seen
local held, fresh = {}, {}
local records = call_many('HMGET', LEASES, ask[1])
for i = 1, #ask[1] do held[i] = records[i] and '1' or '0' end
for i, row in ipairs(ask[2]) do
  local job = job_of(row[1])
  local known = not job or call('SISMEMBER', key_of('rows', ROWS, row[1], job, row[2]), row[2]) == 1
  fresh[i] = known and '0' or '1'
end
local length = call('HGET', JOURNALS .. ask[3], ask[4]) or '-1'
return { table.concat(held), table.concat(fresh), length }
