-- reap: takes expired leases back, and makes due delayed tasks pending.
-- gives   reap promote
local BATCH = 1000  -- leases or delayed tasks in one script
local LOST = 'worker_lost'
local ROOM_OF_SUSPECT = 0.5

-- Seconds that a task waits after its worker was lost. From the second loss on, tasks come back one by one, in reverse
-- order every other time, so that a page that kills its worker does not bury the others.
local function wait_of_suspect(losses, place, company)
  if losses < 2 then return 0 end
  local turn = losses % 2 == 0 and place or company - 1 - place
  return turn * ROOM_OF_SUSPECT * (losses - 1)
end

local function take_back(lease, place, company)
  local number = job_of_line(lease[ITS_LINE])
  local job = job_of(number)
  if not job then return end
  local item = item_of(lease)
  local attempt, most, losses, noted = byte(item, 13, 16)
  attempt, losses = min(attempt + 1, 255), min(losses + 1, 255)
  if most == 0 then most = job.attempts end
  -- The loss is noted after the head of the item; a reader appends it to the task's history.
  local body = 17 + noted * 9
  item = sub(item, 1, 12) .. char(attempt, byte(item, 14), losses, noted + 1) .. sub(item, 17, body - 1)
    .. pack('<Bd', attempt, now) .. sub(item, body)
  if attempt >= most then return bury(lease[HOST], lease[ITS_LINE], lease[PRIORITY], item, LOST, '') end
  count(number, 'retried', 1)
  local wait = wait_of_suspect(losses, place, company)
  if wait > 0 then return delay(lease[HOST], lease[ITS_LINE], lease[PRIORITY], item, now + wait) end
  put_back(lease[HOST], job, lease[ITS_LINE], lease[PRIORITY], item)
end

-- Adds the worker's expired leases to `expired`; stores in `holders` when its next one expires.
local function find_expired(worker, expired)
  local left_ = BATCH - #expired
  for _, token_ in ipairs(call('ZRANGEBYSCORE', HELD .. worker, '-inf', now, 'LIMIT', 0, left_)) do
    expired[#expired + 1] = token_
  end
  local next_ = call('ZRANGEBYSCORE', HELD .. worker, string.format('(%.17g', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if #expired == BATCH then return end  -- the rest with the next one
  if next_[2] then
    call('ZADD', HOLDERS, next_[2], worker)
  else
    call('ZREM', HOLDERS, worker)
  end
end

function reap()
  local expired = {}
  for _, worker in ipairs(call('ZRANGEBYSCORE', HOLDERS, '-inf', now, 'LIMIT', 0, 100)) do
    if #expired < BATCH then find_expired(worker, expired) end
  end
  if #expired == 0 then return 0 end
  local held, taken = end_leases(expired), 0
  for i = #expired, 1, -1 do
    local lease = held[expired[i]]
    if lease then
      take_back(lease, i - 1, #expired)
      taken = taken + 1
    end
  end
  return taken
end

function promote()
  local names = call('ZRANGEBYSCORE', DELAYED, '-inf', now, 'LIMIT', 0, 100)
  local left = BATCH
  load_hosts(names)
  for _, name in ipairs(names) do
    local key = LATER .. name
    local ready = left > 0 and call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, left) or {}
    left = left - #ready
    if #ready > 0 then call_many('ZREM', key, ready) end
    for _, entry in ipairs(ready) do
      local line, priority, item, revisit = read_delayed(entry)
      local number = job_of_line(line)
      local job = job_of(number)
      if job then  -- else it was dropped meanwhile
        count(number, 'delayed', -1)
        if revisit then  -- with a new id it goes behind the pages that are there
          count(number, 'waiting', -1)
          serial = serial + 1
          item = pack('>I6', serial * shards + shard) .. sub(item, 7)
        end
        put_back(name, job, line, priority, item)
      end
    end
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if first[2] then
      call('ZADD', DELAYED, first[2], name)
    else
      call('ZREM', DELAYED, name)
    end
  end
end
