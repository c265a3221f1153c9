-- arrive: a task that was redirected goes on at another URL.
local grown = {}  -- jobs whose set of seen URLs or of rows grew

-- a: host, lane, priority, item, fingerprint or '', whether the task has been at that URL before, the host's domain or ''
local function arrive(number, job, a)
  local name, lane, priority, item, fingerprint, returns, domain_name = unpack(a, 1, 7)
  domain_names[name] = domain_name
  if fingerprint ~= '' then
    local fresh = see(number, job, fingerprint)
    if not fresh and not returns then  -- that page has its own task
      count(number, 'done', 1)
      count(number, 'duplicates', 1)
      return
    end
    grown[number] = true
  end
  put_back(name, job, line_of(number, lane), priority, item)
end

local function store_grown()
  for number in pairs(grown) do
    store_set('seen', SEEN, number, jobs[number])
    store_set('rows', ROWS, number, jobs[number])
  end
end
