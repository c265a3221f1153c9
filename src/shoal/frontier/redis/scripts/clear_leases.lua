-- clear_leases: ends one page of a dropped job's leases.
-- asks    { job's number, cursor }
-- answers the next cursor
-- uses    base watch domains hosts leases
though_full()
local page = call('HSCAN', LEASES, ask[2], 'COUNT', 500)
local tokens = {}
for i = 1, #page[2], 2 do
  if job_of_line((unpack_of('<I6', page[2][i + 1]))) == ask[1] then tokens[#tokens + 1] = page[2][i] end
end
if #tokens > 0 then
  end_leases(tokens)
  store_hosts()
  finish('')
end
return page[1]
