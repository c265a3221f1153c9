-- base: what every script uses: time, repeated calls, jobs and their counters, waking.
--   KEYS[1] the shard's tag; every key of the shard begins with it
--   ARGV[1] now, or '' for the server's time    ARGV[2] who calls
--   ARGV[3] the number of the call              ARGV[4] what is asked, as msgpack
--   ARGV[5] the epoch that the caller knows, or '' if that does not matter
local call, floor, min, max, sub, byte, char = redis.call, math.floor, math.min, math.max, string.sub, string.byte, string.char
local pack, unpack_of = struct.pack, struct.unpack
local FOREVER = 1e18
local LANES_PER_JOB = 1024
local LEFT_BEHIND = 5  -- seconds after which any process delivers what was sent to another shard
local RETAINED = 60  -- seconds for which delivered entries are kept, in case a shard goes back
local MOST_ARGUMENTS = 4000  -- of one command; Lua's stack holds 8000

local ask = cmsgpack.unpack(ARGV[4])
local meta = call('HMGET', META, 'time', 'serial', 'token', 'shard', 'shards', 'domains', 'layout', 'epoch', 'run', 'back')

-- No script runs on a store of another layout. (No layout: the server has lost its data, perhaps back to an old one.)
local layout = meta[7] or call('TYPE', METABEFORE).ok == 'hash' and call('HGET', METABEFORE, 'layout')
if layout and layout ~= LAYOUT then return redis.error_reply('LAYOUT ' .. layout) end

-- On a server that was restarted or replaced, nothing happens before the caller knows: earlier writes may be lost. `run` is
-- the run of the server in which the epoch began; its random name never comes again.
local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')
if ARGV[5] ~= '' and (meta[8] ~= ARGV[5] or meta[9] ~= run) then return redis.error_reply('SETBACK of the store') end
local back_at = tonumber(meta[10])  -- when the store may last have gone back
local serial, token = tonumber(meta[2]) or 0, tonumber(meta[3]) or 0
local before = { serial = serial, token = token }
local shard, shards = tonumber(meta[4]) or 0, tonumber(meta[5]) or 1
local shared = tonumber(meta[6]) or 0  -- domains with more than one host

-- Time never goes back, even if the server's clock does.
local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] + time[2] / 1000000
end
now = max(now, tonumber(meta[1]) or 0)

-- A full server refuses a script only at its first write, and only if that write may need memory. So a script that frees or
-- moves data begins with a write that needs none, and runs to its end; one that adds data begins with one that may.
local function though_full() call('HDEL', META, '') end
local function needs_room() call('HSET', META, 'time', now) end

-- A call whose answer got lost is repeated, and must not take effect twice. Scripts that call this remember their answer.
local remembers = false
local function repeated()
  remembers = true
  local said = call('GET', CALL .. ARGV[2])
  local length = #ARGV[3]
  if said and sub(said, 1, length) == ARGV[3] and sub(said, length + 1, length + 1) == ' ' then
    return sub(said, length + 2)
  end
end

-- Calls `command key a b c …` in as many commands as needed; `step` arguments belong together.
local function call_many(command, key, arguments, step)
  if #arguments == 0 then return {} end
  if #arguments <= MOST_ARGUMENTS then return call(command, key, unpack(arguments)) end
  local most = MOST_ARGUMENTS - MOST_ARGUMENTS % (step or 1)
  local answers
  for first = 1, #arguments, most do
    local got = call(command, key, unpack(arguments, first, min(first + most - 1, #arguments)))
    if not answers or type(got) ~= 'table' then
      answers = got
    else
      for i = 1, #got do answers[#answers + 1] = got[i] end
    end
  end
  return answers
end

local jobs, counts = {}, {}

-- The job of that number, or false if it was dropped.
local function job_of(number)
  local job = jobs[number]
  if job == nil then
    local f = call('HMGET', JOB .. number, 'state', 'attempts', 'pages', 'per_host', 'valve', 'done', 'leased',
      'granted', 'returned', 'seen', 'seen_buckets', 'rows', 'rows_buckets', 'blocks', 'domain', 'expires', 'slices')
    job = false
    if f[1] then
      job = {
        state = f[1], attempts = tonumber(f[2]), pages = tonumber(f[3]), per_host = tonumber(f[4]), valve = f[5],
        done = tonumber(f[6]) or 0, leased = tonumber(f[7]) or 0,
        granted = tonumber(f[8]) or 0, returned = tonumber(f[9]) or 0,
        seen = tonumber(f[10]) or 0, seen_buckets = tonumber(f[11]) or 1,
        rows = tonumber(f[12]) or 0, rows_buckets = tonumber(f[13]) or 1,
        blocks = tonumber(f[14]) or 0, domain = f[15],
        expires = tonumber(f[16]) or 0, slices = f[17],
      }
    end
    jobs[number] = job
  end
  return job
end

local function count(number, field, by)
  local job = job_of(number)
  if not job then return end
  local of_job = counts[number]
  if not of_job then
    of_job = {}
    counts[number] = of_job
  end
  of_job[field] = (of_job[field] or 0) + by
  if field == 'done' or field == 'leased' then job[field] = job[field] + by end
end

local function store_counts()
  for number, fields in pairs(counts) do
    local key = JOB .. number
    for field, by in pairs(fields) do
      if by ~= 0 then call('HINCRBY', key, field, by) end
    end
    call('HINCRBY', key, 'moves', 1)
  end
end

local CHANNEL = string.match(KEYS[1], '^{(.*):%d+}$') .. ':wake'
local tell_sleepers = function() end  -- tells waiting processes what has become due: see watch.lua

-- Tells all processes that a job was opened, fed to its end, changed its state or was dropped.
local function tell_of_job() call('PUBLISH', CHANNEL, 'jobs') end

-- Ends a script that has changed something.
local function finish(answer, remembered)
  store_counts()
  tell_sleepers()
  local facts = { 'time', now }
  for field, value in pairs({ serial = serial, token = token }) do
    if value ~= before[field] then
      facts[#facts + 1] = field
      facts[#facts + 1] = value
    end
  end
  call('HSET', META, unpack(facts))
  if remembers then call('SET', CALL .. ARGV[2], ARGV[3] .. ' ' .. (remembered or answer), 'EX', 3600) end
  return answer
end
