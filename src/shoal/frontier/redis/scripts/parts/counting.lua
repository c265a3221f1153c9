-- counting: the counters of a spider, in the record of its job.
-- gives   count_own
local COUNTER_NAMES, COUNTER_MOST, OTHER_COUNTERS = 200, 2 ^ 53 - 1, 'own:(other)'  -- as in limits.py

-- A new name beyond the limit is counted with the others.
function count_own(number, counts)
  local key = JOB .. number
  for k = 1, #counts, 2 do
    local field, by = 'own:' .. counts[k], counts[k + 1]
    local total = call('HINCRBY', key, field, by)
    local is_new = total == by and field ~= OTHER_COUNTERS
    if is_new and call('HINCRBY', key, 'own_names', 1) > COUNTER_NAMES then
      call('HINCRBY', key, 'own_names', -1)
      call('HDEL', key, field)
      field = OTHER_COUNTERS
      total = call('HINCRBY', key, field, by)
    end
    if total > COUNTER_MOST then call('HSET', key, field, COUNTER_MOST) end
  end
end
