-- seen: exact sets of 63-bit numbers, in buckets that stay small enough for Redis to keep them as sorted arrays of
-- integers (8 bytes each; at most 512, by its default). Linear hashing: a full set splits one bucket at a time.
-- Lua's numbers hold 53 bits, so the numbers travel as decimal strings, and their last 15 digits choose the bucket.
-- gives   store_set key_of filters_of see has_seen
local FULL = 190  -- numbers a bucket; those not yet split hold up to twice as many, and chance adds some

local function bucket_of(number, buckets, half)
  local hash = tonumber(sub(number, -15))
  local bucket = hash % (half + half)
  if bucket >= buckets then bucket = bucket - half end
  return bucket
end

local halves = {}

-- The largest power of two that is not larger.
local function half_of(buckets)
  local half = halves[buckets]
  if not half then
    half = 1
    while half + half <= buckets do half = half + half end
    halves[buckets] = half
  end
  return half
end

-- `name` is 'seen' or 'rows', `prefix` the beginning of its buckets' keys.
local function split_buckets(name, prefix, number, job)
  if name == 'seen' and job.blocks > 0 then return end
  local counted, of_buckets = name, name .. '_buckets'
  while job[counted] > job[of_buckets] * FULL do
    local buckets = job[of_buckets]
    local half = half_of(buckets)
    local from, to = prefix .. number .. ':' .. (buckets - half), prefix .. number .. ':' .. buckets
    local stay, go = {}, {}
    for _, member in ipairs(call('SMEMBERS', from)) do
      if tonumber(sub(member, -15)) % (half + half) == buckets then
        go[#go + 1] = member
      else
        stay[#stay + 1] = member
      end
    end
    call('DEL', from)
    if #stay > 0 then call_many('SADD', from, stay) end
    if #go > 0 then call_many('SADD', to, go) end
    job[of_buckets] = buckets + 1
  end
end

function store_set(name, prefix, number, job)
  split_buckets(name, prefix, number, job)
  call('HSET', JOB .. number, name, job[name], name .. '_buckets', job[name .. '_buckets'])
end

-- The key of the bucket for a member of one of the job's sets.
function key_of(name, prefix, number, job, member)
  local buckets = job[name .. '_buckets']
  return prefix .. number .. ':' .. bucket_of(member, buckets, half_of(buckets))
end

-- If dedupe need not be exact: Bloom filters in blocks of 2^20 bits. One part of the fingerprint chooses the block; two
-- others give the first bit and the step to the next. The first filter has 16 bits for each URL of the capacity. When it is
-- full, another begins with twice the blocks and two more bits for each URL. It takes fewer new URLs for known than the one
-- before (0.046 %, 0.018 %, 0.008 % …), so that all filters together stay below 1 in 1,000.
local BITS, PROBES = 2 ^ 20, 11

-- The job's filters as { first block, blocks }. New URLs go into the last one.
function filters_of(job)
  if not job.filters or job.seen >= job.room then
    local first, blocks, bits = 0, job.blocks, job.bits or 16
    job.filters, job.room = {}, 0
    repeat
      job.filters[#job.filters + 1] = { first, blocks }
      job.room = job.room + floor(blocks * BITS / bits)
      first, blocks, bits = first + blocks, blocks + blocks, bits + 2
    until job.seen < job.room
  end
  return job.filters
end

local function bloom_fresh(number, filter, fingerprint, remember)
  local low, high = tonumber(sub(fingerprint, -9)), tonumber(sub(fingerprint, 1, -10)) or 0
  local block = filter[1] + (floor(high / BITS) * 954 + floor(low / BITS)) % filter[2]
  local bit, step = low % BITS, high % BITS
  if step % 2 == 0 then step = step + 1 end
  local arguments = {}
  for _ = 1, PROBES do
    local n = #arguments
    arguments[n + 1], arguments[n + 2], arguments[n + 3] = remember and 'SET' or 'GET', 'u1', bit
    if remember then arguments[n + 4] = 1 end
    bit = (bit + step) % BITS
  end
  if remember then
    -- Touches the last bit, so that a block is made in its full size: one that grows bit by bit takes twice its size.
    local n = #arguments
    arguments[n + 1], arguments[n + 2], arguments[n + 3], arguments[n + 4] = 'INCRBY', 'u1', BITS - 1, 0
  end
  local before = call('BITFIELD', BLOOM .. number .. ':' .. block, unpack(arguments))
  for i = 1, PROBES do
    if before[i] == 0 then return true end
  end
  return false
end

local function fresh_in_all(number, job, fingerprint, remember)
  local filters = filters_of(job)
  for i = 1, #filters do
    if not bloom_fresh(number, filters[i], fingerprint, remember and i == #filters) then return false end
  end
  return true
end

-- Adds the fingerprint; returns whether it is new.
function see(number, job, fingerprint)
  local fresh
  if job.blocks > 0 then
    fresh = fresh_in_all(number, job, fingerprint, true)
  else
    fresh = call('SADD', key_of('seen', SEEN, number, job, fingerprint), fingerprint) == 1
  end
  if fresh then job.seen = job.seen + 1 end
  return fresh
end

function has_seen(number, job, fingerprint)
  if job.blocks > 0 then return not fresh_in_all(number, job, fingerprint, false) end
  return call('SISMEMBER', key_of('seen', SEEN, number, job, fingerprint), fingerprint) == 1
end
