-- lines: for each job and lane, the hosts that are due, in order.
-- A host that is served moves back by the time that its requests will hold slots, so that hosts get equal shares of that
-- time. A host that leaves the line keeps its place and joins there again, but neither far before nor far behind the first.
-- gives   UNTIMED first_of cost_of front_of join first_in permits wait_for_domain
UNTIMED = 1.0  -- seconds
local LEAST_HOLD = 0.02
local QUICK, BEFORE_UNKNOWN, FURTHEST = 3.6, 0.9, 8
local JOINING = 500  -- hosts at once; more join with the next claim

function first_of(key)
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return tonumber(first[2]) or FOREVER
end

-- How far one request moves the host back.
function cost_of(host)
  return max(LEAST_HOLD, host[HOLD] == 0 and UNTIMED or host[HOLD])
end

local function is_quick(host)
  return host[HOLD] > 0 and host[HOLD] < QUICK
end

local function headway_of(host)
  return is_quick(host) and cost_of(host) / 4 or UNTIMED
end

-- The time of the line, and the place of its first host. Nil: the line is empty.
function front_of(line)
  local first = call('ZRANGE', LINE .. line, 0, 0, 'WITHSCORES')
  if not first[1] then return nil end
  load_hosts({ first[1] })
  local place = tonumber(first[2])
  return place - headway_of(hosts[first[1]]), place
end

-- Where a host with this place joins the line: as Valve.seat in Python.
local function seat(host, place, front)
  if not front then return place end
  local goes_before = is_quick(host) and host[INTERVAL] > 0
  local furthest = goes_before and BEFORE_UNKNOWN or FURTHEST * max(cost_of(host), UNTIMED)
  return min(max(place, front + headway_of(host)), front + furthest)
end

-- The host waits for its domain: at its place, but not before the first host that waits.
function wait_for_domain(name, number, line, place)
  local domain, key = domain_of(number), CROWD .. line .. ':' .. number
  local front = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  call('ZADD', key, max(place, tonumber(front) or 0), name)
  if not place_of(domain.lines, line) then
    domain.lines[#domain.lines + 1] = line
    look_again(number)
  end
  if call('ZREM', LINE .. line, name) == 1 then look_again(number) end  -- it was in the line
end

-- Hosts whose domain others wait for wait behind them; returns the other hosts.
local function without_crowds(line, names, kept)
  load_hosts(names)
  local rest, places = {}, {}
  for i = 1, #names do
    local host = hosts[names[i]]
    if host and host[DOMAIN] > 0 and place_of(domain_of(host[DOMAIN]).lines, line) then
      wait_for_domain(names[i], host[DOMAIN], line, tonumber(kept[i]) or 0)
    else
      rest[#rest + 1] = names[i]
      places[#rest] = kept[i]
    end
  end
  return rest, places
end

-- Lets as many of the hosts that wait for the domain join the line as it allows.
local function come_forward(line, number, front)
  local domain, key = domain_of(number), CROWD .. line .. ':' .. number
  local many = min(JOINING, domain_room(domain, true))
  local flat = many > 0 and call('ZRANGE', key, 0, many - 1, 'WITHSCORES') or {}
  for i = 1, #flat, 2 do
    load_hosts({ flat[i] })
    call('ZADD', LINE .. line, 'NX', seat(hosts[flat[i]], tonumber(flat[i + 1]), front), flat[i])
    call('ZREM', key, flat[i])
  end
  if call('EXISTS', key) == 1 then
    call('ZADD', CROWDS .. line, many > 0 and FOREVER or domain_due(domain), number)
  else
    call('ZREM', CROWDS .. line, number)
    table.remove(domain.lines, place_of(domain.lines, line))
    touched_domains[number] = domain
  end
  return #flat / 2
end

local function call_crowds(line, most, front)
  local called = 0
  while called < most do
    local due = call('ZRANGEBYSCORE', CROWDS .. line, '-inf', now, 'LIMIT', 0, 100)
    if #due == 0 then return end
    for _, number in ipairs(due) do called = called + come_forward(line, tonumber(number), front) end
  end
end

-- Lets due hosts join the line; with several shards, not before the time of the line of all shards (`floor_`).
function join(line, most, floor_)
  local names = call('ZRANGEBYSCORE', DUE .. line, '-inf', now, 'LIMIT', 0, min(JOINING, max(100, 2 * most)))
  if #names == 0 and shared == 0 then return end
  local front = front_of(line)
  if floor_ then front = max(front or floor_, floor_) end
  if #names > 0 then
    call('ZREM', DUE .. line, unpack(names))
    local kept = call('HMGET', PLACES .. line, unpack(names))
    if shared > 0 then names, kept = without_crowds(line, names, kept) end
    load_hosts(names)
    local seats = {}
    for i = 1, #names do
      seats[2 * i - 1] = seat(hosts[names[i]], tonumber(kept[i]) or 0, front)
      seats[2 * i] = names[i]
    end
    if #names > 0 then call('ZADD', LINE .. line, 'NX', unpack(seats)) end
  end
  if shared > 0 then
    store_domain_dues()
    call_crowds(line, most, front)
  end
end

-- The first hosts in the line, with their places. Hosts whose domain is not due leave it.
function first_in(line, most)
  while true do
    local flat, all_may = call('ZRANGE', LINE .. line, 0, most - 1, 'WITHSCORES'), true
    if shared == 0 then return flat end
    local names = {}
    for i = 1, #flat, 2 do names[#names + 1] = flat[i] end
    load_hosts(names)
    for i, name in ipairs(names) do
      local host = hosts[name]
      if host and host[DOMAIN] > 0 and domain_room(domain_of(host[DOMAIN]), host[INTERVAL] > 0) == 0 then
        wait_for_domain(name, host[DOMAIN], line, tonumber(flat[2 * i]))
        all_may = false
      end
    end
    if all_may then return flat end
  end
end

-- How many more tasks may be leased so that the page budget is never exceeded; with several shards, this shard's part.
function permits(job)
  if job.pages == 0 then return 2 ^ 30 end
  local allowed = shards > 1 and job.granted - job.returned or job.pages
  return max(0, allowed - job.done - job.leased)
end
