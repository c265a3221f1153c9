-- leases: how they are written, how they end, and where their tasks go.
-- A lease is: line, priority, since, its first deadline, host, worker, and the item as it was before the claim. `held`
-- knows the deadlines of a worker's leases, as its heartbeats have moved them, and `holders` the first of them.
-- gives   LEASE ITS_LINE PRIORITY HOST read_lease item_of end_leases delay read_delayed bury reject
LEASE = '<I6i4ddHc0Hc0'

ITS_LINE, PRIORITY, HOST = 1, 2, 3
local WORKER, RECORD, ITEM_AT, SINCE = 4, 5, 6, 7

function read_lease(record)
  local line, priority, since, _, host, worker, at = unpack_of(LEASE, record)
  return { line, priority, host, worker, record, at, since }
end

function item_of(lease)
  return sub(lease[RECORD], lease[ITEM_AT])
end

-- Ends the leases that are still held; returns token → lease. Their hosts get their places back. `timed`: how long they were
-- held counts for the host's average. `tokens.unsent`: those whose turns are given back, too.
function end_leases(tokens, timed)
  local held, names, by_worker = {}, {}, {}
  local records = call_many('HMGET', LEASES, tokens)
  local ended = {}
  for i = 1, #tokens do
    local token_ = tokens[i]
    if records[i] and not held[token_] then
      local lease = read_lease(records[i])
      held[token_] = lease
      ended[#ended + 1] = token_
      names[#names + 1] = lease[HOST]
      local of_worker = by_worker[lease[WORKER]]
      if not of_worker then
        of_worker = {}
        by_worker[lease[WORKER]] = of_worker
      end
      of_worker[#of_worker + 1] = token_
    end
  end
  if #ended == 0 then return held end
  call_many('HDEL', LEASES, ended)
  for worker, own in pairs(by_worker) do call_many('ZREM', HELD .. worker, own) end
  load_hosts(names)
  for i = 1, #ended do
    local lease = held[ended[i]]
    local host = hosts[lease[HOST]]
    if host then
      if tokens.unsent and tokens.unsent[ended[i]] then
        free_place(host, nil, lease[SINCE])
      else
        free_place(host, timed and now - lease[SINCE])
      end
      touched[lease[HOST]] = host
    end
    count(job_of_line(lease[ITS_LINE]), 'leased', -1)
  end
  return held
end

-- A delayed task is: line, priority, item. The highest bit of the line says that it waits for its next visit.
local REVISIT = 2 ^ 47

function delay(name, line, priority, item, due, revisit)
  call('ZADD', LATER .. name, due, pack('<I6i4', revisit and line + REVISIT or line, priority) .. item)
  call('ZADD', DELAYED, 'LT', due, name)
  count(job_of_line(line), 'delayed', 1)
  if revisit then count(job_of_line(line), 'waiting', 1) end
  due_in(line, due)
end

-- Returns its line, priority, item, and whether it waits for its next visit.
function read_delayed(entry)
  local line, priority, at = unpack_of('<I6i4', entry)
  local revisit = line >= REVISIT
  return revisit and line - REVISIT or line, priority, sub(entry, at), revisit
end

-- A letter is: when, line, priority, kind, host, item, and the snapshot as the worker wrote it.
function bury(name, line, priority, item, kind, snapshot)
  local number, id = job_of_line(line), string.format('%.0f', (unpack_of('>I6', item)))
  call('HSET', DEAD .. number, id,
    pack('<dI6i4Hc0Hc0I4c0', now, line, priority, #kind, kind, #name, name, #item, item) .. snapshot)
  call('ZADD', DEADAT .. number, now, id)
  count(number, kind == 'rejected' and 'rejected' or 'dead', 1)
end

-- An item that its page's schema refuses: `rest` is the item without id and time.
function reject(name, line, priority, rest_)
  serial = serial + 1
  bury(name, line, priority, pack('>I6I6', serial * shards + shard, floor(now * 1000)) .. rest_, 'rejected', '')
end
