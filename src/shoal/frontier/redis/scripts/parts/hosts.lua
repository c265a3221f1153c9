-- hosts: records of hosts, loaded once and stored once a script.
-- A record is flat: interval, next_at, blocked_until, hold, burst, cap, in_flight, version, number of the domain that it
-- shares with others or 0, then for each of the host's lists that is not empty: its line (job and lane in one number), its
-- priority, its length. Best priority first.
local VALVE, LIST_OF_HOST = '<ddddI4I4I4I4I4', 'I6i4I4'
local INTERVAL, NEXT_AT, BLOCKED, HOLD, BURST, CAP, IN_FLIGHT, VERSION, DOMAIN, FIRST = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local HUSH = 3  -- seconds
local formats = { [0] = VALVE }

local function format_of(lists)
  local format = formats[lists]
  if not format then
    format = VALVE .. string.rep(LIST_OF_HOST, lists)
    formats[lists] = format
  end
  return format
end

local function due_of(host)
  if host[IN_FLIGHT] >= host[CAP] then return FOREVER end
  local due, blocked = host[NEXT_AT] - (host[BURST] - 1) * host[INTERVAL], host[BLOCKED]
  -- Requests of the lost time are not known: one may have been sent right before, or may not have ended yet.
  if back_at then due = max(due, back_at + max(HUSH, host[INTERVAL])) end
  if blocked > due then return blocked end
  return due
end

local hosts, touched = {}, {}  -- name → record; those to be stored
local stored_due = {}  -- when they are due, as stored
local lined, left = {}, {}  -- those that got tasks in a line where they had none; the lines where they have none left
local staying = {}  -- those that were served and keep standing in that line

local function read_host(name, record)
  local host = { unpack_of(format_of((#record - 52) / 14), record) }
  host[#host] = nil  -- struct also tells where it stopped
  stored_due[name] = due_of(host)
  return host
end

local function load_hosts(names)
  local missing = {}
  for i = 1, #names do
    local name = names[i]
    if hosts[name] == nil then
      hosts[name] = false
      missing[#missing + 1] = name
    end
  end
  if #missing == 0 then return end
  local records = call_many('HMGET', HOSTS, missing)
  for i = 1, #missing do
    if records[i] then
      hosts[missing[i]] = read_host(missing[i], records[i])
    end
  end
end

local domain_names = {}  -- host → its domain, of those that a caller brings

-- A new host joins its domain. With the second one, the domain's limit begins. `sites` knows of each domain its only
-- host, or '=' and its number.
local function meet_domain(name, host)
  local domain_name = domain_names[name] or ''
  if domain_name == '' then return end
  local known = call('HGET', SITES, domain_name)
  if not known then return call('HSET', SITES, domain_name, name) end
  if sub(known, 1, 1) ~= '=' then
    shared = call('HINCRBY', META, 'domains', 1)
    call('HSET', SITES, domain_name, '=' .. shared)
    load_hosts({ known })
    local first, visitors = hosts[known], {}
    first[DOMAIN], touched[known] = shared, first
    for at = FIRST, #first, 3 do
      local number = floor(first[at] / LANES_PER_JOB)
      if not place_of(visitors, number) then visitors[#visitors + 1] = number end
    end
    domains[shared] = { next_at = 0, in_flight = first[IN_FLIGHT], jobs = visitors, lines = {}, told_due = 0 }
    domains[shared].interval, domains[shared].cap = strictest(visitors)
    touched_domains[shared] = domains[shared]
    known = '=' .. shared
  end
  host[DOMAIN] = tonumber(sub(known, 2))
end

-- The host, made with the job's valve if nobody knows it yet. It will be stored.
local function host_of(name, job)
  local host = hosts[name]
  if host == nil then
    load_hosts({ name })
    host = hosts[name]
  end
  if not host then
    -- Nothing is sent for items that are replayed, and deliveries to a webhook do not wait for a site. The names are
    -- those of model/__init__.py, and the numbers are those of valve.py.
    local cap = sub(name, 10, 17) == 'webhook ' and 4 or 1000000
    local open = sub(name, 1, 9) == 'items of ' and pack(VALVE, 0, 0, 0, 0, 1, cap, 0, 0, 0)
    host = read_host(name, open or job.valve)
    hosts[name] = host
    meet_domain(name, host)
  end
  touched[name] = host
  return host
end

local function job_of_line(line)
  return floor(line / LANES_PER_JOB)
end

local pending_fields = {}

-- n more tasks are pending in the line. Called only where a list grows or shrinks, so the lanes of a job always agree.
local function pend(line, n)
  local field = pending_fields[line]
  if not field then
    field = 'pending:' .. line % LANES_PER_JOB
    pending_fields[line] = field
  end
  count(job_of_line(line), field, n)
end

-- n tasks more in the host's list of that line and priority.
local function lengthen(name, host, line, priority, n)
  local at, known = FIRST, false
  pend(line, n)
  while host[at] do
    if host[at] == line then
      known = true
      if host[at + 1] == priority then
        host[at + 2] = host[at + 2] + n
        return
      end
      if host[at + 1] < priority then break end
    elseif host[at] > line then
      break
    end
    at = at + 3
  end
  known = known or host[at] == line
  table.insert(host, at, n)
  table.insert(host, at, priority)
  table.insert(host, at, line)
  if not known then
    lined[name] = true
    if host[DOMAIN] > 0 then visit_domain(host[DOMAIN], job_of_line(line)) end
  end
end

local function shorten(name, host, at, n)
  host[at + 2] = host[at + 2] - n
  pend(host[at], -n)
  if host[at + 2] > 0 then return false end
  local line = host[at]
  table.remove(host, at)
  table.remove(host, at)
  table.remove(host, at)
  if host[at] ~= line and (at == FIRST or host[at - 3] ~= line) then
    left[name] = left[name] or {}
    table.insert(left[name], line)
  end
  return true
end

local function append(lists, line, first, second)
  local list = lists[line]
  if not list then
    list = {}
    lists[line] = list
  end
  list[#list + 1] = first
  list[#list + 1] = second
end

local function leave_crowd(name, host, line)
  if host[DOMAIN] > 0 and place_of(domain_of(host[DOMAIN]).lines, line) then
    call('ZREM', CROWD .. line .. ':' .. host[DOMAIN], name)
  end
end

-- Stores in the lines when their hosts are due. Hosts that are no longer due leave; those that are join with the next claim.
local function store_dues()
  local waiting, gone, away = {}, {}, {}
  for name, host in pairs(touched) do
    if left[name] then
      for _, line in ipairs(left[name]) do
        local still = false
        for at = FIRST, #host, 3 do still = still or host[at] == line end
        if not still then
          append(gone, line, name)
          if host[DOMAIN] > 0 then call('ZREM', CROWD .. line .. ':' .. host[DOMAIN], name) end
        end
      end
      left[name] = nil
      if host[DOMAIN] > 0 then look_again(host[DOMAIN]) end
    end
    local due, before_ = due_of(host), stored_due[name]
    if due ~= before_ or lined[name] then
      local sooner = due < before_ or lined[name]
      local domain = host[DOMAIN] > 0 and domain_of(host[DOMAIN])
      if domain and due > now and before_ <= now then look_again(host[DOMAIN]) end
      local at_earliest = due
      if domain and host[INTERVAL] > 0 then at_earliest = max(due, domain.next_at) end
      local previous
      for at = FIRST, #host, 3 do
        local line = host[at]
        if line ~= previous then
          previous = line
          if sooner then due_in(line, at_earliest) end
          if at_earliest > now or staying[name] ~= line then
            append(waiting, line, at_earliest, name)
            leave_crowd(name, host, line)
          end
          if at_earliest > now then append(away, line, name) end
        end
      end
      stored_due[name], lined[name] = due, nil
    end
  end
  for line, names in pairs(gone) do
    call_many('ZREM', DUE .. line, names)
    call_many('ZREM', LINE .. line, names)
  end
  for line, names in pairs(away) do call_many('ZREM', LINE .. line, names) end
  for line, scores in pairs(waiting) do call_many('ZADD', DUE .. line, scores, 2) end
  store_domain_dues()
end

local function store_hosts()
  store_dues()
  local records = {}
  for name, host in pairs(touched) do
    records[#records + 1] = name
    records[#records + 1] = pack(format_of((#host - 9) / 3), unpack(host))
  end
  call_many('HSET', HOSTS, records, 2)
  store_domains()
end

-- A request has ended. `held`: how long it held its slot, if that counts for the host's average. `unsent`: when it went, if
-- nothing was sent; its turn is given back, unless others went since.
local function free_place(host, held, unsent)
  host[IN_FLIGHT] = max(0, host[IN_FLIGHT] - 1)
  if host[DOMAIN] > 0 then give_back_to_domain(host[DOMAIN], host[INTERVAL] > 0 and unsent) end
  if unsent then host[NEXT_AT] = refunded(host[NEXT_AT], host[INTERVAL], unsent) end
  if held then
    local hold = host[HOLD]
    host[HOLD] = hold == 0 and held or hold + (held - hold) * 0.25
  end
end

local lanes = {}

local function lane_number(name)
  local number = lanes[name]
  if not number then
    number = tonumber(call('HGET', LANES, name))
    if not number then
      number = call('HLEN', LANES) + 1
      assert(number < LANES_PER_JOB, 'there are more than 1023 lanes')
      call('HSET', LANES, name, number)
    end
    lanes[name] = number
  end
  return number
end

local function line_of(number, lane)
  return number * LANES_PER_JOB + lane_number(lane)
end

local list_keys = {}

-- The key of a host's list, but for the host's name: numbers are slow to turn into text.
local function list_key(line, priority)
  local of_line = list_keys[line]
  if not of_line then
    of_line = {}
    list_keys[line] = of_line
  end
  local key = of_line[priority]
  if not key then
    key = QUEUE .. line .. ':' .. priority .. ':'
    of_line[priority] = key
  end
  return key
end

local SEARCHED = 32  -- tasks at the front of a list among which a returning one finds its place

-- Puts a task back into its list, before all younger ones.
-- An item begins with its id, so items compare as their ids do. Tasks return to the front as a rule: what left the
-- list was at its front. One that belongs further back than the search goes is put there, a little early.
local function put_back(name, job, line, priority, item)
  local host = host_of(name, job)
  local key, id = list_key(line, priority) .. name, sub(item, 1, 6)
  lengthen(name, host, line, priority, 1)
  local head = call('LINDEX', key, 0)
  if not head or id < sub(head, 1, 6) then
    call('LPUSH', key, item)
  elseif sub(call('LINDEX', key, -1), 1, 6) < id then
    call('RPUSH', key, item)
  else
    local older = {}
    for _, waiting in ipairs(call('LRANGE', key, 0, SEARCHED - 1)) do
      if sub(waiting, 1, 6) > id then break end
      older[#older + 1] = waiting
    end
    call('LPOP', key, #older)
    call('LPUSH', key, item)
    for i = #older, 1, -1 do call('LPUSH', key, older[i]) end
  end
end
