-- admit: checks tasks for duplicates and budgets, and puts them into their queues.
-- Tasks come flat, list by list: host, its domain or '', lane, priority, n, then n × (fingerprint, rest). A fingerprint is
-- a decimal string, followed by a blank and the task's variant if it has one; '' for a task that is never a duplicate.
-- `rest` is the item without id and time. Returns how many were new, duplicates and over their host's budget, and for each
-- task one of n, d, o.

local function admit(number, flat)
  local job = job_of(number)
  if not job or not flat then return 0, 0, 0, '' end
  local names, place = {}, 1
  while flat[place] do
    names[#names + 1] = flat[place]
    domain_names[flat[place]] = flat[place + 1]
    place = place + 5 + 2 * flat[place + 4]
  end
  if #names == 0 then return 0, 0, 0, '' end
  load_hosts(names)
  local admitted = call_many('HMGET', JOBHOSTS .. number, names)
  local of_host, changed = {}, {}
  for i = 1, #names do of_host[names[i]] = tonumber(admitted[i]) or 0 end

  local new, duplicates, over_budget, fates = 0, 0, 0, {}
  local budget = job.per_host > 0 and job.per_host or math.huge
  local created = floor(now * 1000)
  place = 1
  for _ = 1, #names do
    local name, many = flat[place], flat[place + 4]
    local used, items = of_host[name], {}
    local budget = sub(name, 1, 9) == 'items of ' and math.huge or budget
    for t = place + 5, place + 4 + 2 * many, 2 do
      local fingerprint, variant = string.match(flat[t], '(%d*) ?(%d*)')
      local fresh = true
      if fingerprint ~= '' then
        if used < budget then
          fresh = sliced.see_page(number, job, fingerprint)
          if fresh and variant ~= '' then sliced.see_variant(number, job, variant) end
        else
          fresh = not sliced.has_seen_page(number, job, fingerprint)
        end
      end
      if not fresh then
        duplicates = duplicates + 1
        fates[#fates + 1] = 'd'
      elseif used >= budget then
        over_budget = over_budget + 1
        fates[#fates + 1] = 'o'
      else
        fates[#fates + 1] = 'n'
        used = used + 1
        serial = serial + 1
        items[#items + 1] = pack('>I6I6', serial * shards + shard, created) .. flat[t + 1]
      end
    end
    if #items > 0 then
      local line, priority = line_of(number, flat[place + 2]), flat[place + 3]
      lengthen(name, host_of(name, job), line, priority, #items)
      call_many('RPUSH', list_key(line, priority) .. name, items)
      new = new + #items
      of_host[name], changed[name] = used, used
    end
    place = place + 5 + 2 * many
  end
  if new > 0 then
    local fields = {}
    for name, used in pairs(changed) do
      fields[#fields + 1] = name
      fields[#fields + 1] = used
    end
    call_many('HSET', JOBHOSTS .. number, fields, 2)
    store_set('seen', SEEN, number, job)
    count(number, 'admitted', new)
  end
  count(number, 'duplicates', duplicates)
  count(number, 'over_budget', over_budget)
  return new, duplicates, over_budget, table.concat(fates)
end
