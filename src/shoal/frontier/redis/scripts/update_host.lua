-- update_host: compare-and-set of a host's numbers and its policies' state.
-- asks    { name, version, interval, burst, cap, blocked_until, state }
-- answers 1, or 0 if the version is another or there is no such host
-- keeps   only claim and settle change in_flight; next_at moves as if the last request had had the new interval
-- uses    base watch domains hosts
though_full()
local said = repeated()
if said then return said end
local name, version, interval, burst, cap, blocked_until, state = unpack(ask, 1, 7)
load_hosts({ name })
local host = hosts[name]
if not host or host[VERSION] ~= version then return finish('0') end
touched[name] = host
if host[NEXT_AT] ~= 0 then host[NEXT_AT] = host[NEXT_AT] + interval - host[INTERVAL] end
host[INTERVAL], host[BURST], host[CAP], host[BLOCKED] = interval, burst, cap, blocked_until
host[VERSION] = version + 1
call('HSET', STATES, name, state)
store_hosts()
return finish('1')
