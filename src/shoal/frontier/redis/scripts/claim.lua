-- claim: leases what may run now.
-- asks    { worker, lease's seconds, limit, jobs' numbers, lanes' names, { job's place, lane's place, most of that lane, … } }
-- answers { '<ddd' now, when something becomes due, when to claim again (below zero: another process watches, and so many
--           wait; 0: nothing more is wanted), numbers of jobs that are gone, then for each host served:
--           '<I6dI4HHi4H' first token, interval, version, job's place, lane's place, priority, how many, and the host's
--           name; then its items … }
-- keeps   a task has one live lease, a token is never given twice; the leases of a host and of its domain never exceed the
--         cap, and are never closer than the interval; leased and done of a job never exceed its page budget
-- uses    base watch domains hosts leases reap lines
though_full()
local SHARE = 8  -- tasks that a claim gets in any case, even if other processes wait
local SINCE_2025 = 1735689600  -- so tokens have room in 53 bits, with 1024 shards, for decades
local worker, seconds, limit, numbers, names, wanted = unpack(ask, 1, 6)

local lane_numbers = {}
for l = 1, #names do lane_numbers[l] = lane_number(names[l]) end
local answer = { '', '' }

local function describe(first, host, job_place, lane_place, priority, many, name)
  answer[#answer + 1] = pack('<I6dI4HHi4H', first, host[INTERVAL], host[VERSION], job_place, lane_place, priority, many)
    .. name
end

-- The leases of the first call, as far as they are still held.
local function tell_again(said)
  local first, many, at = unpack_of('<I6I4', said)
  local tokens = {}
  for i = 1, many do tokens[i] = first + (i - 1) * shards end
  local records = call_many('HMGET', LEASES, tokens)
  local places = {}
  for j, number in ipairs(numbers) do
    for l = 1, #names do
      places[number * LANES_PER_JOB + lane_numbers[l]] = { j, l }
    end
  end
  for i = 1, many do
    if records[i] then
      local lease = read_lease(records[i])
      local name, place = lease[HOST], places[lease[ITS_LINE]]
      load_hosts({ name })
      describe(tokens[i], hosts[name], place[1], place[2], lease[PRIORITY], 1, name)
      answer[#answer + 1] = item_of(lease)
    end
  end
  answer[1] = sub(said, at)
  return answer
end

local said = repeated()
if said then return tell_again(said) end

reap()
promote()
if next(touched) then store_dues() end  -- so that tasks that came back just now are in their line
local deadline = now + seconds
-- Tokens grow with time, so that a server that has lost its last second does not give the same ones again.
token = max(token, floor((now - SINCE_2025) * 10000))
local first_token, leased = (token + 1) * shards + shard, 0
local leases, deadlines = {}, {}

local function lease(name, host, line, priority, items, job_place, lane_place)
  describe((token + 1) * shards + shard, host, job_place, lane_place, priority, #items, name)
  local head = pack(LEASE, line, priority, now, deadline, #name, name, #worker, worker)
  for i = 1, #items do
    local item = items[i]
    token = token + 1
    local number = token * shards + shard
    leases[#leases + 1] = number
    leases[#leases + 1] = head .. item
    deadlines[#deadlines + 1] = deadline
    deadlines[#deadlines + 1] = number
    answer[#answer + 1] = item
  end
end

local function allowance(host)
  if now < due_of(host) then return 0 end
  local room, interval = host[CAP] - host[IN_FLIGHT], host[INTERVAL]
  if interval <= 0 then return room end
  local earliest = host[NEXT_AT] - (host[BURST] - 1) * interval
  -- The requests that have become possible since the earliest moment, counted in whole intervals.
  local slots = floor((now - earliest) / interval + 1e-9) + 1
  return min(room, slots, host[BURST])
end

local function serve(name, host, line, most, job_place, lane_place)
  local taken, place = 0, FIRST
  while host[place] and host[place] < line do place = place + 3 end
  while taken < most and host[place] == line do
    local priority, many = host[place + 1], min(most - taken, host[place + 2])
    local items = call('LPOP', list_key(line, priority) .. name, many)
    lease(name, host, line, priority, items, job_place, lane_place)
    taken = taken + many
    if not shorten(name, host, place, many) then break end
  end
  if taken > 0 then
    host[NEXT_AT] = max(host[NEXT_AT], now) + taken * host[INTERVAL]
    host[IN_FLIGHT] = host[IN_FLIGHT] + taken
    if host[DOMAIN] > 0 then take_of_domain(host[DOMAIN], taken, host[INTERVAL] > 0) end
  end
  return taken, host[place] == line
end

-- Serves the hosts in line in passes, a fair share each, until there is no room or the line is empty.
local function take(line, room, job_place, lane_place)
  local taken = 0
  local function step_back(name, host)
    call('ZREM', LINE .. line, name)
    call('ZADD', DUE .. line, due_of(host), name)
  end
  while taken < room do
    local left_ = room - taken
    join(line, left_)
    local flat = call('ZRANGE', LINE .. line, 0, left_ - 1, 'WITHSCORES')
    if #flat == 0 then break end
    local due, seats, places = {}, {}, {}
    for i = 1, #flat, 2 do due[#due + 1] = flat[i] end
    load_hosts(due)
    local share = max(1, floor(left_ / #due))
    for i = 1, #due do
      local name = due[i]
      local host = hosts[name]
      local allowed = allowance(host)
      local room_of_domain = host[DOMAIN] > 0 and domain_room(domain_of(host[DOMAIN]), host[INTERVAL] > 0) or ANY
      if allowed == 0 then
        step_back(name, host)  -- it was just served in another line
      elseif room_of_domain == 0 then
        wait_for_domain(name, host[DOMAIN], line, tonumber(flat[2 * i]))
      else
        touched[name] = host
        local most = min(share, room - taken, allowed, room_of_domain)
        local got, more = serve(name, host, line, most, job_place, lane_place)
        taken = taken + got
        if got == 0 then step_back(name, host) end
        local place = flat[2 * i] + got * cost_of(host)
        append(places, 1, name, place)
        if more and due_of(host) <= now then
          staying[name] = line
          append(seats, 1, place, name)
        end
      end
    end
    if places[1] then call_many('HSET', PLACES .. line, places[1], 2) end
    if seats[1] then call_many('ZADD', LINE .. line, seats[1], 2) end
    if taken < room then store_dues() end
  end
  return taken
end

local company = company_of_mine()
local given, most_of, shared_out, dry = {}, {}, {}, {}
for l = 1, #names do given[l], most_of[l] = 0, 0 end
for i = 1, #wanted, 3 do
  local j, l = wanted[i], wanted[i + 1]
  local number, lane = numbers[j], lane_numbers[l]
  local job = job_of(number)
  most_of[l] = max(most_of[l], wanted[i + 2])
  if job and job.state == 'running' then
    local line = number * LANES_PER_JOB + lane
    local room = min(wanted[i + 2] - given[l], limit - leased, permits(job))
    if company > 1 and room > SHARE then  -- the due tasks are shared with processes that wait
      join(line, room)
      local share = max(SHARE, math.ceil(call('ZCARD', LINE .. line) / company))
      if share < room then room, shared_out[line] = share, share end
    end
    if room > 0 and not dry[line] then
      local got = take(line, room, j, l)
      if got > 0 then
        given[l], leased = given[l] + got, leased + got
        count(number, 'leased', got)
      end
      dry[line] = got < room
    end
  end
end
local changed = next(touched) or next(touched_domains)
if changed then store_hosts() end
if leased > 0 then
  call_many('HSET', LEASES, leases, 2)
  call_many('ZADD', HELD .. worker, deadlines, 2)
  call('ZADD', HOLDERS, 'LT', deadline, worker)
end

-- Tasks in lines of which this process wants no more are for another one. In the others it waits.
local next_due, gone, lines, helpers = min(first_of(DELAYED), first_of(HOLDERS)), {}, {}, 0
for _, number in ipairs(numbers) do
  local job = job_of(number)
  if not job then
    gone[#gone + 1] = number
  elseif job.state == 'running' then
    for l = 1, #names do
      local line, may_more = number * LANES_PER_JOB + lane_numbers[l], permits(job) > 0
      local due = may_more and min(first_of(DUE .. line), first_of(CROWDS .. line)) or FOREVER
      local waiting = may_more and call('ZCARD', LINE .. line) or 0
      if shared_out[line] and waiting > 0 then due, helpers = now, helpers + math.ceil(waiting / shared_out[line]) end
      if leased < limit and given[l] < most_of[l] then
        lines[#lines + 1] = line
        next_due = min(next_due, due)
      elseif may_more then
        due_in(line, waiting > 0 and now or due)
      end
    end
  end
end
local look = sleep(lines, leased, next_due, helpers)
answer[1], answer[2] = pack('<ddd', now, next_due, look), table.concat(gone, ' ')
if leased > 0 or changed then return finish(answer, pack('<I6I4', first_token, leased) .. answer[1]) end
tell_sleepers()
return answer  -- nothing changed, so nothing is written
