-- letters: where a job's dead letters are, by time of death, the newest first.
-- asks    { job's number, from, until (scores), how many to skip, to look at and to answer, host or '', kind or '' }
-- answers { how many it looked at, 1 if there may be more, { id, score … } }; all of one moment, if it has the time
-- keeps   nothing changes
-- uses    base
local number, low, high, skip, scan, most, host, kind = unpack(ask)
local flat = call('ZREVRANGEBYSCORE', DEADAT .. number, high, low, 'WITHSCORES', 'LIMIT', skip, scan)
local found = {}
-- Rejected items are found by their kind only. Without any, letters need not be read.
local any_kind = kind == '' and (tonumber(call('HGET', JOB .. number, 'rejected')) or 0) == 0

local function is_wanted(id)
  if host == '' and any_kind then return true end
  local letter = call('HGET', DEAD .. number, id)
  if not letter then return false end
  local _, _, _, its_kind, its_host = unpack_of('<dI6i4Hc0Hc0', letter)
  if host ~= '' and host ~= its_host then return false end
  return kind == its_kind or kind == '' and its_kind ~= 'rejected'
end

for i = 1, #flat, 2 do
  local id, score = flat[i], flat[i + 1]
  if #found >= 2 * most and score ~= found[#found] then return { (i - 1) / 2, 1, found } end
  if is_wanted(id) then
    found[#found + 1] = id
    found[#found + 1] = score
  end
end
return { #flat / 2, #flat == 2 * scan and 1 or 0, found }
