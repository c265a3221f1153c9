-- letters: where a job's dead letters are, by time of death, the newest first.
-- asks    { job's number, from, until (scores), how many to skip, to look at and to answer, host or '', kind or '' }
-- answers { how many it looked at, 1 if there may be more, { id, score … } }; all of one moment, if it has the time
-- keeps   nothing changes
-- uses    base
local number, low, high, skip, scan, most, host, kind = unpack(ask)
local flat = call('ZREVRANGEBYSCORE', DEADAT .. number, high, low, 'WITHSCORES', 'LIMIT', skip, scan)
local found = {}

local function is_wanted(id)
  if host == '' and kind == '' then return true end
  local letter = call('HGET', DEAD .. number, id)
  if not letter then return false end
  local _, _, _, its_kind, its_host = unpack_of('<dI6i4Hc0Hc0', letter)
  return (host == '' or host == its_host) and (kind == '' or kind == its_kind)
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
