-- release: hands tasks back. They are pending again, and the attempt does not count.
-- asks    { token … }
-- answers how many were held
-- uses    base watch domains hosts leases
though_full()
local said = repeated()
if said then return said end
local held, released = end_leases(ask), 0
for i = #ask, 1, -1 do  -- the youngest first, because each goes to the front
  local lease = held[ask[i]]
  if lease then
    held[ask[i]] = nil
    local job = job_of(job_of_line(lease[ITS_LINE]))
    if job then
      put_back(lease[HOST], job, lease[ITS_LINE], lease[PRIORITY], item_of(lease))
    end
    released = released + 1
  end
end
if next(touched) then store_hosts() end
return finish(tostring(released))
