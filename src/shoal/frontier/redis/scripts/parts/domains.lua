-- domains: the limit that all hosts of one registrable domain share, once there are two.
-- A record is: next_at, the due time that its lines know, in_flight, how many jobs, the jobs that had tasks there, the lines
-- where hosts wait for it. The strictest limit of the running jobs holds. In a line, `crowds` says when to look at the hosts
-- that wait: when the domain is due; or after the next change, if some have joined the line already.
local DOMAIN_RECORD = '<ddI4H'
local ANY = 2 ^ 30

local domains, touched_domains = {}, {}  -- number → domain; those to be stored

local function strictest(of_jobs)
  local interval, cap = 0, ANY
  for _, number in ipairs(of_jobs) do
    local job = job_of(number)
    if job and job.state == 'running' then
      local its_interval, its_cap = unpack_of('<dI4', job.domain)
      interval = max(interval, its_interval)
      if its_cap > 0 then cap = min(cap, its_cap) end
    end
  end
  return interval, cap
end

local function domain_due(domain)
  if domain.in_flight >= domain.cap then return FOREVER end
  return domain.next_at
end

local function read_domain(record)
  local next_at, told_due, in_flight, many, at = unpack_of(DOMAIN_RECORD, record)
  local domain = { next_at = next_at, told_due = told_due, in_flight = in_flight, jobs = {}, lines = {} }
  while at <= #record do
    local list = #domain.jobs < many and domain.jobs or domain.lines
    list[#list + 1], at = unpack_of('<I6', record, at)
  end
  domain.interval, domain.cap = strictest(domain.jobs)
  if back_at then domain.next_at = max(domain.next_at, back_at + domain.interval) end
  return domain
end

local function domain_of(number)
  local domain = domains[number]
  if not domain then
    domain = read_domain(call('HGET', DOMAINS, number))
    domains[number] = domain
  end
  return domain
end

-- How many requests may go to one of its hosts now. `paced`: the host has an interval of its own.
local function domain_room(domain, paced)
  local room = max(0, domain.cap - domain.in_flight)
  if not paced then return room end
  if now < domain.next_at then return 0 end
  return domain.interval > 0 and min(room, 1) or room
end

-- `many` requests go now.
local function take_of_domain(number, many, paced)
  local domain = domain_of(number)
  if paced then domain.next_at = max(domain.next_at, now) + many * domain.interval end
  domain.in_flight = domain.in_flight + many
  domain.look_again = true
  touched_domains[number] = domain
end

-- `next_at` as if nothing had gone at `since`, if nothing has gone after it: that would have moved it on by a second interval.
local function refunded(next_at, interval, since)
  local late = next_at - since
  if late <= 0 or late >= 2 * interval - 1e-6 then return next_at end
  return max(since, next_at - interval)
end

-- `unsent`: when the request went, if nothing was sent (see `free_place`).
local function give_back_to_domain(number, unsent)
  local domain = domain_of(number)
  domain.in_flight = max(0, domain.in_flight - 1)
  if unsent then domain.next_at = refunded(domain.next_at, domain.interval, unsent) end
  touched_domains[number] = domain
end

-- One of its hosts has changed: if it was in the line, another host may join.
local function look_again(number)
  local domain = domain_of(number)
  domain.look_again = true
  touched_domains[number] = domain
end

local function place_of(list, value)
  for i = 1, #list do
    if list[i] == value then return i end
  end
end

local function visit_domain(number, job_number)
  local domain = domain_of(number)
  if place_of(domain.jobs, job_number) then return end
  local living = { job_number }
  for _, other in ipairs(domain.jobs) do
    if job_of(other) then living[#living + 1] = other end
  end
  domain.jobs = living
  domain.interval, domain.cap = strictest(living)
  touched_domains[number] = domain
end

-- Tells the lines where hosts wait when their domain is due.
local function store_domain_dues()
  for number, domain in pairs(touched_domains) do
    local due = domain_due(domain)
    if domain.look_again or due ~= domain.told_due then
      local living = {}
      for _, line in ipairs(domain.lines) do
        if job_of(floor(line / LANES_PER_JOB)) then
          living[#living + 1] = line
          call('ZADD', CROWDS .. line, due, number)
          if due < domain.told_due then due_in(line, due) end
        end
      end
      domain.lines, domain.told_due, domain.look_again = living, due, false
    end
  end
end

local function store_domains()
  local records = {}
  for number, domain in pairs(touched_domains) do
    local record = { pack(DOMAIN_RECORD, domain.next_at, domain.told_due, domain.in_flight, #domain.jobs) }
    for _, job_number in ipairs(domain.jobs) do record[#record + 1] = pack('<I6', job_number) end
    for _, line in ipairs(domain.lines) do record[#record + 1] = pack('<I6', line) end
    records[#records + 1] = number
    records[#records + 1] = table.concat(record)
  end
  call_many('HSET', DOMAINS, records, 2)
end
