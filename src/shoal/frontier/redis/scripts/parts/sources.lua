-- sources: where a job's start URLs come from. In the home shard's record of the job, 'fed:' .. its name holds how many
-- were read, a blank, and 1 if no more will come, else 0. '' is the spider's own start.
local MOST_SOURCES = 100

local function source_of(number, name)
  local fed, through = string.match(call('HGET', JOB .. number, 'fed:' .. name) or '', '^(%d+) (%d)$')
  return tonumber(fed), through == '1'
end

local function set_source(number, name, fed, through)
  call('HSET', JOB .. number, 'fed:' .. name, string.format('%d %d', fed, through and 1 or 0))
end

-- With several shards: 'fedlog:' .. its name holds the positions of the source in the last minute, one a second.
local function note_position(number, name, fed)
  local field = 'fedlog:' .. name
  local log = call('HGET', JOB .. number, field) or ''
  while #log > 0 and unpack_of('<d', log) < now - RETAINED do log = sub(log, 17) end
  if #log == 0 or unpack_of('<d', log, #log - 15) < now - 1 then log = log .. pack('<dd', now, fed) end
  call('HSET', JOB .. number, field, log)
end

-- Another shard has lost what was written since then: sets the sources back, so that their feeders add it again. The
-- spider's own start is fed again even if it was at its end, because any worker with the spider can. A list of a command may
-- be gone, so the job does not wait for it. A job that finished over a minute ago stays finished: a shard without writes for
-- long only seems to have lost all that time.
local function rewind_sources(number, since)
  local state, finished = unpack(call('HMGET', JOB .. number, 'state', 'finished'))
  if state == 'finished' and (tonumber(finished) or 0) < now - RETAINED then return end
  local fields = call('HGETALL', JOB .. number)
  for i = 1, #fields, 2 do
    local name, log = string.match(fields[i], '^fedlog:(.*)$'), fields[i + 1]
    local fed, through
    if name then fed, through = source_of(number, name) end
    for at = 1, fed and #log or 0, 16 do
      local when, position = unpack_of('<dd', log, at)
      if when >= since - 1 then
        set_source(number, name, min(fed, position), through and name ~= '')
        call('HINCRBY', JOB .. number, 'moves', 1)
        break
      end
    end
  end
end

-- A source that was fed to its end stays so until it is opened again.
local function move_source(number, name, fed, through)
  local before, was_through = source_of(number, name)
  if shards > 1 then note_position(number, name, before or 0) end
  set_source(number, name, fed >= 0 and fed or before or 0, through or was_through)
end

-- Sums up sources that were fed, so that a list every minute does not make the record of the job long.
local function sum_up_sources(number)
  local fields, fed, known = call('HGETALL', JOB .. number), 0, {}
  for i = 1, #fields, 2 do
    if sub(fields[i], 1, 4) == 'fed:' then known[#known + 1] = sub(fields[i], 5) end
  end
  if #known <= MOST_SOURCES then return end
  for _, name in ipairs(known) do
    local count, through = source_of(number, name)
    if through and name ~= '' then
      fed = fed + count
      call('HDEL', JOB .. number, 'fed:' .. name, 'fedlog:' .. name)
    end
  end
  set_source(number, 'earlier', fed, true)
end

local function open_source(number, name, again)
  local fed, through = source_of(number, name)
  if not fed or (again and through) then set_source(number, name, 0, false) end
  sum_up_sources(number)
end
