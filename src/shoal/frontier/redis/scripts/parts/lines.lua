-- lines: of each job and lane, the hosts that may be hit now, in their order.
-- A host that is served goes back by the time its requests will hold slots, so hosts get equal shares of that time. Its
-- place is kept when it is not in line; who joins stands at it, but not before the first.
local UNTIMED, LEAST_HOLD = 1.0, 0.02  -- seconds
local JOINING = 500  -- hosts at once; more join with the next claim

-- The first place in line; with several shards, not before the first of all of them.
local function join(line, most, floor_)
  local names = call('ZRANGEBYSCORE', DUE .. line, '-inf', now, 'LIMIT', 0, min(JOINING, max(100, 2 * most)))
  if #names == 0 then return end
  local front = tonumber(call('ZRANGE', LINE .. line, 0, 0, 'WITHSCORES')[2]) or 0
  front = max(front, floor_ or 0)
  local kept = call('HMGET', PLACES .. line, unpack(names))
  local seats = {}
  for i = 1, #names do
    seats[2 * i - 1] = max(tonumber(kept[i]) or 0, front)
    seats[2 * i] = names[i]
  end
  call('ZADD', LINE .. line, 'NX', unpack(seats))
  call('ZREM', DUE .. line, unpack(names))
end

local function first_of(key)
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return tonumber(first[2]) or FOREVER
end

-- How many more tasks may be leased so that the page budget is never exceeded; with several shards, this shard's part.
local function permits(job)
  if job.pages == 0 then return 2 ^ 30 end
  local allowed = shards > 1 and job.granted - job.returned or job.pages
  return max(0, allowed - job.done - job.leased)
end
