-- peek: which hosts of this shard may be served now. With several shards, a claim looks at all of them first.
-- asks    { jobs' numbers, lanes' names, how many hosts at most, for each job and lane the time of all shards' lines }
-- answers { '<ddd' now, when something becomes due, when to claim again (as for claim), numbers of jobs that have due tasks
--           but no permit, shards to deliver to, then for each job and lane, as doubles: the time of its line and the
--           place of its first host before others joined; then the places of its hosts }
-- keeps   like claim, it takes expired leases back, makes due delayed tasks pending and lets hosts join their lines
-- uses    base watch domains hosts leases reap lines
though_full()
local numbers, names, most, floors = unpack(ask, 1, 4)
reap()
promote()
if next(touched) then store_dues() end
local lane_numbers, lines = {}, {}
for l = 1, #names do lane_numbers[l] = lane_number(names[l]) end
local next_due, short, blobs = min(first_of(DELAYED), first_of(HOLDERS), first_of(OUTS) + LEFT_BEHIND), {}, {}

-- The time of the line is stored: otherwise a process that has just begun would let hosts join too far in front.
local function floor_of(line, given)
  local known = tonumber(call('HGET', PLACES .. line, '')) or -UNTIMED
  if given == -UNTIMED then return known end
  if given > known then call('HSET', PLACES .. line, '', given) end
  return given
end

local function places_of(line, job, given)
  local front, first = front_of(line)
  join(line, most, floor_of(line, given))
  local flat = first_in(line, most)
  store_domain_dues()
  next_due = min(next_due, first_of(DUE .. line), first_of(CROWDS .. line))
  if #flat > 0 and permits(job) == 0 then
    short[#short + 1] = job_of_line(line)
    return ''
  end
  if #flat == 0 then return '' end
  local places = { pack('<dd', front or 0, first or FOREVER) }
  for i = 2, #flat, 2 do places[#places + 1] = pack('<d', tonumber(flat[i])) end
  return table.concat(places)
end

for j, number in ipairs(numbers) do
  local job = job_of(number)
  for l = 1, #names do
    local serves = job and job.state == 'running'
    local line, given = number * LANES_PER_JOB + lane_numbers[l], floors[(j - 1) * #names + l]
    if serves then lines[#lines + 1] = line end
    blobs[#blobs + 1] = serves and places_of(line, job, given) or ''
  end
end
local look = sleep(lines, 0, next_due)
if next(touched) or next(touched_domains) then
  store_hosts()
  finish('')
end
return { pack('<ddd', now, next_due, look), table.concat(short, ' '),
  table.concat(call('ZRANGEBYSCORE', OUTS, '-inf', now - LEFT_BEHIND), ' '), unpack(blobs) }
