-- begin: the first process on a server that was restarted or replaced begins an epoch. The server may have lost its last
-- writes. Numbers that it gave in that time may be in use, so they are not given again.
-- asks    { name for an epoch, number of this shard, how many there are, the home shard's jobs or false: { the last
--         number of a job, { { name, number, fields and values … } … } }, or for the home shard what others know or
--         false: { { shard, its epoch, since when it has lost things, { { job's number, granted, returned } … } } … } }
-- answers { epoch, whether it has just begun, the home shard's jobs: { last number, { name, number, fields and values …
--         } … }; or another shard's: { { jobs it has that the home shard has not: name, number … }, { job's number,
--         granted, returned … }, since when it has lost things } }
-- keeps   an id, a token, a job's number and a place in a sequence to another shard stand for one thing for ever
-- full    runs. It writes nothing if nothing has to change, so that a server that takes no writes can be read
-- uses    base sources
local JUMP = 2 ^ 24  -- more than a shard gives in the time that it may lose
local FIELDS = { 'state', 'attempts', 'pages', 'per_host', 'valve', 'domain', 'spec', 'created', 'blocks' }

local function begin()
  though_full()
  if not meta[4] then call('HSET', META, 'shard', ask[2], 'shards', ask[3], 'layout', LAYOUT) end
  if meta[9] or serial > 0 then
    serial, token = serial + JUMP, token + JUMP
    call('HINCRBY', META, 'jobs', 1000)
    call('HINCRBY', META, 'words', 1000)
    for other = 0, shards > 1 and shards - 1 or -1 do call('HINCRBY', META, 'out:' .. other, JUMP) end
    if meta[9] then call('HSET', META, 'back', now, 'lost_from', meta[1] or now) end
  end
  for _, group in ipairs(call('HKEYS', WATCH)) do call('DEL', SLEEPERS .. group) end
  call('DEL', WATCH)  -- processes that wait claim again, and wait anew
  call('HSET', META, 'run', run, 'epoch', ask[1])
  finish('')
end

local begun = meta[9] ~= run or not meta[8]
if begun then begin() end
local epoch = call('HGET', META, 'epoch')

-- The jobs of the home shard. `to` and `from`: the pages of a budget that each shard was granted, and has given back.
local function all_jobs()
  local known, flat = {}, call('HGETALL', JOBS)
  for i = 1, #flat, 2 do
    local values = call('HMGET', JOB .. flat[i + 1], unpack(FIELDS))
    local job = { flat[i], flat[i + 1] }
    for f, field in ipairs(FIELDS) do
      if values[f] then
        job[#job + 1] = field
        job[#job + 1] = values[f]
      end
    end
    if values[3] and tonumber(values[3]) > 0 then
      for other = 1, shards - 1 do
        for _, way in ipairs({ 'to:', 'from:' }) do
          job[#job + 1] = way .. other
          job[#job + 1] = call('HGET', JOB .. flat[i + 1], way .. other) or '0'
        end
      end
    end
    known[#known + 1] = job
  end
  return { call('HGET', META, 'jobs') or '0', known }
end

-- Stores a job of the home shard in this shard.
local function take_job(name, number, job)
  local key = JOB .. number
  if call('HGET', key, 'spec') ~= job.spec or call('HGET', key, 'state') ~= job.state then
    though_full()
    call('HSET', JOBS, name, number)
    call('HSET', key, 'name', name)
    for _, field in ipairs(FIELDS) do
      if field == 'created' or field == 'blocks' then
        if job[field] then call('HSETNX', key, field, job[field]) end
      elseif job[field] then
        call('HSET', key, field, job[field])
      end
    end
    call('HINCRBY', key, 'moves', 1)
    tell_of_job()
  end
  for field, way in pairs({ granted = 'to:', returned = 'from:' }) do
    local told = tonumber(job[way .. shard]) or 0
    if told > (tonumber(call('HGET', key, field)) or 0) then
      though_full()
      call('HSET', key, field, told)
    end
  end
end

local function take_jobs(last, told)
  local names, shares, orphans = {}, {}, {}
  for _, flat in ipairs(told) do
    local job, name, number = {}, flat[1], flat[2]
    for i = 3, #flat, 2 do job[flat[i]] = flat[i + 1] end
    take_job(name, number, job)
    names[name] = number
    if job.pages and tonumber(job.pages) > 0 then
      local share = call('HMGET', JOB .. number, 'granted', 'returned')
      shares[#shares + 1] = { number, share[1] or '0', share[2] or '0' }
    end
  end
  local own = call('HGETALL', JOBS)
  for i = 1, #own, 2 do
    if names[own[i]] ~= own[i + 1] and tonumber(own[i + 1]) <= tonumber(last) then
      orphans[#orphans + 1] = own[i]
      orphans[#orphans + 1] = own[i + 1]
    end
  end
  return { orphans, shares, call('HGET', META, 'lost_from') or '0' }
end

local function hear_of_others(others)
  for _, other in ipairs(others) do
    local its_shard, its_epoch, lost_from, shares = unpack(other, 1, 4)
    local known = call('HGET', META, 'epoch:' .. its_shard)
    if known ~= its_epoch then
      though_full()
      call('HSET', META, 'epoch:' .. its_shard, its_epoch)
      for _, number in ipairs(known and call('HVALS', JOBS) or {}) do rewind_sources(number, lost_from) end
    end
    for _, share in ipairs(shares) do
      local key, more = JOB .. share[1], 0
      if job_of(share[1]) then
        for way, total in pairs({ ['to:'] = share[2], ['from:'] = share[3] }) do
          local by = tonumber(total) - (tonumber(call('HGET', key, way .. its_shard)) or 0)
          if by > 0 then
            though_full()
            call('HINCRBY', key, way .. its_shard, by)
            more = more + (way == 'to:' and by or -by)
          end
        end
        if more ~= 0 then call('HINCRBY', key, 'outstanding', more) end
      end
    end
  end
end

if ask[4] then return { epoch, begun and 1 or 0, take_jobs(ask[4][1], ask[4][2]) } end
if ask[5] then hear_of_others(ask[5]) end
return { epoch, begun and 1 or 0, shards > 1 and all_jobs() or { '0', {} } }
