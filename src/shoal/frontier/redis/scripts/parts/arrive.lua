-- arrive: a task that was redirected goes on at another URL.
-- gives   grown arrive store_grown
grown = {}  -- jobs whose set of seen URLs or of rows grew

local MOST_MERGED = 1000000  -- pages of a job whose targets are kept

-- The target page has a task of its own.
local function merge(number, into, pages)
  count(number, 'merged', 1)
  count(number, 'duplicates', 1)
  if not into or call('HLEN', MERGED .. number) >= MOST_MERGED then return end
  for _, page in ipairs(pages) do call('HSET', MERGED .. number, page, into) end
end

-- a: host, lane, priority, item, fingerprint or '', whether the task has been at that page before, the host's domain or '',
--    variant or '', its URL, fingerprints of the pages where the task has been. The last three are missing in what an
--    older version has sent.
function arrive(number, job, a)
  local name, lane, priority, item, fingerprint, returns, domain_name, variant, into, pages = unpack(a, 1, 10)
  domain_names[name] = domain_name
  if fingerprint ~= '' then
    local fresh = sliced.see_page(number, job, fingerprint)
    if not fresh and returns then sliced.reopen_page(number, job, fingerprint) end
    if variant and variant ~= '' then fresh = sliced.see_variant(number, job, variant) end
    if not fresh and not returns then return merge(number, into, pages) end
    grown[number] = true
  end
  call('HSETNX', JOBHOSTS .. number, name, 0)  -- needed to delete the data of the job
  put_back(name, job, line_of(number, lane), priority, item)
end

function store_grown()
  for number in pairs(grown) do
    store_set('seen', SEEN, number, jobs[number])
    store_set('rows', ROWS, number, jobs[number])
  end
end
