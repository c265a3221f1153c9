-- slices: what a job with dedupe_expires remembers of pages and rows that are done.
-- Time is cut into slices of a quarter of the job's time. A page that is done leaves the job's set for the one of the present
-- slice, where a row goes at once; those of the last five slices are known. So both are known for that time, and up to a
-- quarter more. A Bloom filter cannot let go of a page: there it goes into its slice at once, and once more when it is done.
-- A slice has the sets and counters of a job with the number 'N.S'. `slices` of the job names them, the first one first.
-- It gives a table of functions, because Lua allows 200 local names, and few are left.
-- gives   sliced
sliced = {}
local SLICES, BITS_A_URL = 4, 18  -- 18 bits: five filters together take fewer than 1 new URL in 1,000 for known
local CLEARED = 200  -- buckets of an old slice in one script
local expiring = {}  -- jobs with slices that were looked at: number → job

local function slice_of(number, job, at)
  local slice = job.slice_tables[at]
  if not slice then
    local id = number .. '.' .. string.format('%d', at)
    local f = call('HMGET', JOB .. id, 'seen', 'seen_buckets', 'rows', 'rows_buckets')
    slice = {
      id = id, seen = tonumber(f[1]) or 0, seen_buckets = tonumber(f[2]) or 1,
      rows = tonumber(f[3]) or 0, rows_buckets = tonumber(f[4]) or 1,
      blocks = math.ceil(job.blocks / SLICES), bits = BITS_A_URL,
    }
    job.slice_tables[at] = slice
  end
  return slice
end

local function load_slices(number, job)
  if job.slice_tables then return end
  job.slice_tables, job.slice_list = {}, {}
  for at in string.gmatch(job.slices or '', '%d+') do job.slice_list[#job.slice_list + 1] = tonumber(at) end
  job.present = floor(now * SLICES / job.expires)
  expiring[number] = job
end

local function store_list(number, job)
  local texts = {}
  for i, at in ipairs(job.slice_list) do texts[i] = string.format('%d', at) end
  call('HSET', JOB .. number, 'slices', table.concat(texts, ' '))
end

local function present_slice(number, job)
  load_slices(number, job)
  local list = job.slice_list
  if list[#list] ~= job.present then
    list[#list + 1] = job.present
    store_list(number, job)
  end
  local slice = slice_of(number, job, job.present)
  slice.grown = true
  return slice
end

-- Calls `look(slice)` for the slices that count, until one answers.
local function in_slices(number, job, look)
  load_slices(number, job)
  for i = #job.slice_list, 1, -1 do
    local at = job.slice_list[i]
    if at < job.present - SLICES then break end
    local found = look(slice_of(number, job, at))
    if found then return found end
  end
  return false
end

local function has_passed(number, job, mark)
  return in_slices(number, job, function(slice) return has_seen(slice.id, slice, mark) end)
end

-- Adds the page, whose task is open from now on; returns whether it is new.
function sliced.see_page(number, job, fingerprint)
  if job.expires == 0 then return see(number, job, fingerprint) end
  if has_passed(number, job, fingerprint) then return false end
  local slice = job.blocks > 0 and present_slice(number, job)
  local fresh = see(slice and slice.id or number, slice or job, fingerprint)
  if fresh then call('HDEL', MERGED .. number, fingerprint) end
  return fresh
end

-- Of a variant it is not known when its task ends: its time counts from now.
function sliced.see_variant(number, job, variant)
  if job.expires == 0 then return see(number, job, variant) end
  if has_passed(number, job, variant) then return false end
  local slice = present_slice(number, job)
  return see(slice.id, slice, variant)
end

function sliced.has_seen_page(number, job, fingerprint)
  if job.expires == 0 then return has_seen(number, job, fingerprint) end
  return has_passed(number, job, fingerprint) or job.blocks == 0 and has_seen(number, job, fingerprint)
end

-- The page's task has ended. `fingerprint` is false if the page has none, or the job forgets nothing.
function sliced.pass_page(number, job, fingerprint)
  if job.expires == 0 or not fingerprint then return end
  if job.blocks == 0 and call('SREM', key_of('seen', SEEN, number, job, fingerprint), fingerprint) == 1 then
    job.seen, job.shrunk = job.seen - 1, true
  end
  local slice = present_slice(number, job)
  see(slice.id, slice, fingerprint)
end

-- The page that was done has an open task again.
function sliced.reopen_page(number, job, fingerprint)
  if job.expires > 0 and job.blocks == 0 then see(number, job, fingerprint) end
end

function sliced.has_row(number, job, key)
  if job.expires == 0 then return call('SISMEMBER', key_of('rows', ROWS, number, job, key), key) == 1 end
  return in_slices(number, job, function(slice)
    return call('SISMEMBER', key_of('rows', ROWS, slice.id, slice, key), key) == 1
  end)
end

-- Adds the key of a row; returns whether it is new.
function sliced.see_row(number, job, key)
  local id, owner = number, job
  if job.expires > 0 then
    if sliced.has_row(number, job, key) then return false end
    owner = present_slice(number, job)
    id = owner.id
  end
  if call('SADD', key_of('rows', ROWS, id, owner, key), key) == 0 then return false end
  owner.rows = owner.rows + 1
  return true
end

-- With several shards: the task that has reserved the row, or false; and the key of the hash for new reservations.
function sliced.reserved_in(number, job, row)
  if not job or job.expires == 0 then return call('HGET', RESERVED .. number, row), RESERVED .. number end
  local owner = in_slices(number, job, function(slice) return call('HGET', RESERVED .. slice.id, row) end)
  return owner, RESERVED .. present_slice(number, job).id
end

-- Deletes a part of the first slice, if its time is over.
local function clear_slice(number, job)
  local at = job.slice_list[1]
  if not at or at >= job.present - SLICES then return end
  local slice, left_ = slice_of(number, job, at), CLEARED
  for _, kind in ipairs({ { SEEN, 'seen_buckets' }, { ROWS, 'rows_buckets' } }) do
    while slice[kind[2]] > 0 and left_ > 0 do
      slice[kind[2]], left_ = slice[kind[2]] - 1, left_ - 1
      call('UNLINK', kind[1] .. slice.id .. ':' .. slice[kind[2]])
    end
  end
  if left_ == 0 then
    call('HSET', JOB .. slice.id, 'seen_buckets', slice.seen_buckets, 'rows_buckets', slice.rows_buckets)
    return
  end
  if slice.blocks > 0 then
    local filters = filters_of(slice)
    for block = 0, filters[#filters][1] + filters[#filters][2] - 1 do call('UNLINK', BLOOM .. slice.id .. ':' .. block) end
  end
  call('UNLINK', JOB .. slice.id, RESERVED .. slice.id)
  table.remove(job.slice_list, 1)
  store_list(number, job)
end

-- Stores what has changed. Called once at the end of a script.
function sliced.store_slices()
  for number, job in pairs(expiring) do
    for _, slice in pairs(job.slice_tables) do
      if slice.grown then
        store_set('seen', SEEN, slice.id, slice)
        store_set('rows', ROWS, slice.id, slice)
      end
    end
    if job.shrunk then call('HSET', JOB .. number, 'seen', job.seen) end
    clear_slice(number, job)
  end
end
