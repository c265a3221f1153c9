-- take_stock: how much memory some keys of this shard use.
-- asks    { cursor or false, how many keys about }; without a cursor, it measures the keys that exist once
-- answers { next cursor, keys looked at, keys of the server, then for each kind: its name, keys, bytes }
-- keeps   nothing changes
-- uses    base
local keys, bytes, next_cursor, looked = {}, {}, '0', 0
local tagged = KEYS[1] .. ':'

local function weigh(key)
  local kind = string.match(key, '^%a+', #tagged + 1)
  local size = kind and call('MEMORY', 'USAGE', key, 'SAMPLES', 5)
  if not size then return end
  keys[kind], bytes[kind] = (keys[kind] or 0) + 1, (bytes[kind] or 0) + size
end

if ask[1] then
  local page = call('SCAN', ask[1], 'COUNT', ask[2])
  next_cursor, looked = page[1], #page[2]
  for _, key in ipairs(page[2]) do
    if sub(key, 1, #tagged) == tagged and string.find(key, ':', #tagged + 1, true) then weigh(key) end
  end
else
  for _, key in ipairs({ META, JOBS, PAST, PASTAT, DROPPED, LANES, HOSTS, STATES, SITES, DOMAINS, DELAYED, LEASES,
    EXTENDED, HOLDERS, ALIVE, STATUS, WATCH, NOTES, OUTS }) do weigh(key) end
end
local answer = { next_cursor, looked, call('DBSIZE') }
for kind, number in pairs(keys) do
  answer[#answer + 1] = kind
  answer[#answer + 1] = number
  answer[#answer + 1] = bytes[kind]
end
return answer
