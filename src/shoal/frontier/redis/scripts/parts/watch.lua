-- watch: which of the waiting processes claims next.
-- Processes that want tasks of the same lines are a group. One of them is the watcher: it claims when the next host of those
-- lines is due, and it alone is told if something is due earlier. It is the one that has waited longest; a process that got
-- tasks goes to the end of the group. The others sleep, and claim now and then, in case the watcher has died.
-- gives   due_in due_in_job sleep rest company_of_mine
local LATE = 0.1  -- seconds after which a watcher that should have claimed is replaced
local LASTS = 120  -- seconds for which a silent process is remembered; waiting ones claim more often
local LONGEST = 400  -- characters of a group's name

local me = string.match(ARGV[2], '^(.*)%-%d+$') or ARGV[2]  -- the process that calls
local in_cluster = sub(me, 1, 1) == '~'
local dues = {}  -- line → when something is due there that waiting processes may not know of
local mine = nil  -- the group of the process that claims, which learns it from the answer

function due_in(line, at)
  if at < (dues[line] or FOREVER) then dues[line] = at end
end

-- The job may take more pages than before.
function due_in_job(number)
  for _, lane in ipairs(call('HVALS', LANES)) do due_in(number * LANES_PER_JOB + lane, now) end
end

-- The name of the group that wants these lines. A group with very many lines is woken for any line.
local function group_of(lines)
  table.sort(lines)
  local name = ',' .. table.concat(lines, ',') .. ','
  return #name <= LONGEST and name or '*' .. redis.sha1hex(name)
end

local function read_watch(record)
  if not record then return nil end
  return (unpack_of('<d', record)), sub(record, 9)
end

-- Tells a process to claim at that time; returns whether it is subscribed. A server of a cluster does not know the
-- subscribers of the others.
local function tell(who, at)
  return call('PUBLISH', CHANNEL .. ':' .. who, string.format('in %.6f', max(0, at - now))) > 0 or in_cluster
end

local function forget(group, who)
  if call('ZREM', SLEEPERS .. group, who) == 1 then call('DEL', SLEEPS .. who) end
end

-- Makes the first living process of the group the watcher. `told`: the process that learns it from the answer.
local function appoint(group, at, told, record)
  at = max(at, now)
  while true do
    local first = call('ZRANGE', SLEEPERS .. group, 0, 0)[1]
    if not first then
      if record then call('HDEL', WATCH, group) end
      return nil
    end
    if first == told or at >= FOREVER or tell(first, at) then
      local watch = pack('<d', at) .. first
      if watch ~= record then call('HSET', WATCH, group, watch) end
      return first
    end
    forget(group, first)
  end
end

-- Whether no watcher claims at that time: it would claim later, or should have claimed long ago.
local function unwatched(group, record, at)
  local looks, who = read_watch(record)
  if not looks then return true end
  if looks < now - LATE then
    if who ~= me then forget(group, who) end
    return true
  end
  return at < looks - 0.001
end

local function wake_up(group, at, record)
  local looks = read_watch(record)
  if looks < now - LATE then at = now end  -- the watcher did not claim, so something may be due
  if at < FOREVER and unwatched(group, record, at) then appoint(group, at, nil, record) end
end

local function leave_group(group)
  call('ZREM', SLEEPERS .. group, me)
  local record = call('HGET', WATCH, group)
  local looks, who = read_watch(record)
  if who == me then appoint(group, looks, nil, record) end
end

-- Called now and then: removes dead processes, and empty groups.
local function stay_in(group)
  for _, who in ipairs(call('ZRANGE', SLEEPERS .. group, 0, -1)) do
    if call('EXISTS', SLEEPS .. who) == 0 then call('ZREM', SLEEPERS .. group, who) end
  end
  for _, other in ipairs(call('HKEYS', WATCH)) do
    if call('EXISTS', SLEEPERS .. other) == 0 then call('HDEL', WATCH, other) end
  end
end

local function join_group(group)
  local before_ = call('GET', SLEEPS .. me)
  if before_ and before_ ~= group then leave_group(before_) end
  if before_ == group and call('TTL', SLEEPS .. me) > LASTS / 2 then return end
  call('SET', SLEEPS .. me, group, 'EX', LASTS)
  if before_ == group then stay_in(group) end
end

-- The calling process wants no tasks for now.
function rest()
  local group = call('GET', SLEEPS .. me)
  if not group then return end
  call('DEL', SLEEPS .. me)
  leave_group(group)
end

-- How many processes wait for the same lines, this one included.
function company_of_mine()
  local group = call('GET', SLEEPS .. me)
  return group and call('ZCARD', SLEEPERS .. group) or 1
end

-- The claiming process wants more of these lines, where something is due at `due`. Returns that time if it is the watcher,
-- otherwise minus how many processes wait there; 0 if it wants no more. `helpers`: for how many processes there is work.
function sleep(lines, got, due, helpers)
  if not lines[1] then
    rest()
    return 0
  end
  local group = group_of(lines)
  join_group(group)
  mine = group
  if got > 0 then
    call('ZADD', SLEEPERS .. group, now, me)
  else
    call('ZADD', SLEEPERS .. group, 'NX', now, me)
  end
  if call('TTL', SLEEPERS .. group) < LASTS / 2 then call('EXPIRE', SLEEPERS .. group, LASTS) end
  local record = call('HGET', WATCH, group)
  local _, who = read_watch(record)
  if who == me or unwatched(group, record, due) then who = appoint(group, due, me, record) end
  -- There is work for several processes: all of them are told at once, because one after the other would take long.
  for place = 1, min(helpers or 0, LONGEST) - 1 do
    local helper = call('ZRANGE', SLEEPERS .. group, place, place)[1]
    if not helper or helper == me then break end
    tell(helper, now)
  end
  return who == me and due or -call('ZCARD', SLEEPERS .. group)
end

-- Wakes processes for jobs whose page budget has room again, because a page was not done after all.
local function give_permits_back()
  for number, fields in pairs(counts) do
    local job = jobs[number]
    if job and job.pages > 0 and (fields.leased or 0) + (fields.done or 0) < 0 then due_in_job(number) end
  end
end

tell_sleepers = function()
  give_permits_back()
  local watches = call('HGETALL', WATCH)
  for i = 1, #watches, 2 do
    local group, at = watches[i], FOREVER
    for line, due in pairs(dues) do
      if sub(group, 1, 1) == '*' or string.find(group, ',' .. line .. ',', 1, true) then at = min(at, due) end
    end
    if group ~= mine then wake_up(group, at, watches[i + 1]) end
  end
end
