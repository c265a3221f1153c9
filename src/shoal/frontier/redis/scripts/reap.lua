-- reap: takes expired leases back, and makes delayed tasks pending whose time has come.
-- asks    nothing
-- answers { how many leases were taken back, shards to deliver to }
-- uses    base watch domains hosts leases reap
though_full()
local taken = reap()
promote()
if next(touched) then
  store_hosts()
  finish('')
end
return { taken, table.concat(call('ZRANGEBYSCORE', OUTS, '-inf', now - LEFT_BEHIND), ' ') }
