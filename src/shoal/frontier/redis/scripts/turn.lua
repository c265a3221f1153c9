-- turn: takes a host's next turn, for a request inside a page that is leased already.
-- asks    { job's number, host, its domain or '', most seconds until the turn }
-- answers '<ddI4B' seconds until the turn, the host's interval, its version, 1 if the turn was taken; or 'gone' if there is
--         no such job
-- keeps   claims and turns together are never closer than the interval of the host and of its domain
-- uses    base watch domains hosts
local said = repeated()
if said then return said end
local number, name, domain_name, most = unpack(ask, 1, 4)
local job = job_of(number)
if not job then return 'gone' end
load_hosts({ name })
if hosts[name] then though_full() else needs_room() end
domain_names[name] = domain_name
local host = host_of(name, job)
local paced, cap = host[INTERVAL] > 0, host[CAP]
host[CAP] = host[IN_FLIGHT] + 1  -- however many are in flight
local due = max(due_of(host), now)
host[CAP] = cap
local domain
if host[DOMAIN] > 0 then
  visit_domain(host[DOMAIN], number)
  domain = domain_of(host[DOMAIN])
  if paced then due = max(due, domain.next_at) end
end
local taken = due - now <= most
if taken then
  host[NEXT_AT] = max(host[NEXT_AT], due) + host[INTERVAL]
  if domain and paced and domain.interval > 0 then
    domain.next_at = due + domain.interval
    look_again(host[DOMAIN])
  end
end
store_hosts()
return finish(pack('<ddI4B', due - now, host[INTERVAL], host[VERSION], taken and 1 or 0))
