-- settle: ends leases with their verdicts, and admits the tasks that their pages found.
-- asks    { { settlement … }, names of hosts, condition or false }
--         settlement: { token, job's number, verdict, its arguments, rows, keys of rows, tasks found by list, tasks
--         for other shards, links that were too many, own counters: name, number …, rejected items: { host, lane,
--         priority, rest of the item } …, whether nothing was sent for the page, the page's fingerprint if the job has
--         dedupe_expires }; false stands for nothing
--         condition: { job's number, journal's key, its length or -1, its new length, which leases are held: '1' or '0' …,
--         name of the writer's turn }
-- answers 'accepted new duplicates over_budget buried', accepted being '1' or '0' for each settlement; or 'again' if the
--         condition does not hold, and nothing has changed
-- full    fails if it adds tasks, dead letters or records of pages; otherwise it runs
-- keeps   a settled page's found tasks are admitted in the same step that marks it done; a lease settles once; the
--         journal's length grows with the settlements whose rows it holds
-- uses    base counting watch domains hosts seen slices admit leases arrive
local said = repeated()
if said then return said end
local batch, names, condition = ask[1], ask[2], ask[3]
local TOKEN, NUMBER, VERDICT, ARGUMENTS, ROWS_, KEYS_, FOUND, OTHERS, CUT, COUNTS, REJECTED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11

local tokens, adds = { unsent = {} }, false
for i = 1, #batch do
  local s = batch[i]
  tokens[i] = s[TOKEN]
  tokens.unsent[s[TOKEN]] = s[REJECTED + 1]
  adds = adds or s[FOUND] or s[OTHERS] or s[REJECTED] or s[VERDICT] == 'dead'
    or s[VERDICT] == 'revisit' and s[ARGUMENTS][3]
end
if adds then needs_room() else though_full() end

local function holds()
  local journal = call('HMGET', JOURNALS .. condition[1], condition[2], 'turn of ' .. condition[2])
  if tonumber(journal[1] or '-1') ~= condition[3] or journal[2] ~= condition[6] then return false end
  local records, met = call_many('HMGET', LEASES, tokens), {}
  for i = 1, #batch do
    local held = records[i] and not met[tokens[i]]
    met[tokens[i]] = true
    if held ~= (byte(condition[5], i) == 49) then return false end
    if held then
      local number, keys = batch[i][NUMBER], batch[i][KEYS_]
      local job = job_of(number)
      for k = 1, keys and #keys or 0 do
        if sliced.has_row(number, job, keys[k]) then return false end
      end
    end
  end
  return true
end

if condition and not holds() then return 'again' end
load_hosts(names)
local held = end_leases(tokens, true)
local accepted, buried = {}, 0
local new, duplicates, over_budget = 0, 0, 0

local function send(target, number, many, moved, payload)
  local seq = call('HINCRBY', META, 'out:' .. target, 1)
  call('RPUSH', OUT .. target, pack('>I6I6I4B', seq, number, many, moved and 1 or 0) .. payload)
  call('ZADD', OUTS, 'NX', now, target)
  count(number, moved and 'out_moved' or 'out_found', many)
end

local conclude = {}

function conclude.done(number, job, _, _, page)
  count(number, 'done', 1)
  sliced.pass_page(number, job, page)
end

-- An item that was replayed: it is no page.
function conclude.item(number) count(number, 'admitted', -1) end

function conclude.retry(number, job, lease, a, page)
  local after, lane, priority, item, most, kind, snapshot, last, counts = unpack(a, 1, 9)
  local attempt = byte(item_of(lease), 13) + 1
  if most == 0 then most = job.attempts end
  if counts and attempt >= min(most, 255) then
    buried = buried + 1
    sliced.pass_page(number, job, page)
    return bury(lease[HOST], lease[ITS_LINE], lease[PRIORITY], last or item, kind, snapshot)
  end
  if counts then count(number, 'retried', 1) end
  delay(lease[HOST], line_of(number, lane), priority, item, now + after)
end

-- a: seconds, item, whether this was the first visit.
function conclude.revisit(_, _, lease, a)
  delay(lease[HOST], lease[ITS_LINE], lease[PRIORITY], a[2], now + a[1], true)
end

function conclude.dead(number, job, lease, a, page)
  sliced.pass_page(number, job, page)
  bury(lease[HOST], lease[ITS_LINE], lease[PRIORITY], a[1], a[2], a[3])
end

function conclude.moved(number, job, _, a, page)
  sliced.pass_page(number, job, page)
  arrive(number, job, a)
end

function conclude.away(number, job, _, a, page)
  sliced.pass_page(number, job, page)
  send(a[1], number, 1, true, a[2])
end

local function settle(i, s)
  local number, lease = s[NUMBER], held[s[TOKEN]]
  local job = job_of(number)
  held[s[TOKEN]] = nil  -- the same lease settles once
  if lease and job then
    accepted[i] = '1'
    conclude[s[VERDICT]](number, job, lease, s[ARGUMENTS], s[REJECTED + 2])
    local rows, keys = s[ROWS_], s[KEYS_]
    for k = 1, keys and #keys or 0 do
      if sliced.see_row(number, job, keys[k]) then rows, grown[number] = rows + 1, true end
    end
    if rows > 0 then count(number, 'items', rows) end
    if s[CUT] > 0 then count(number, 'links_cut', s[CUT]) end
    if s[COUNTS] then count_own(number, s[COUNTS]) end
    for _, a in ipairs(s[REJECTED] or {}) do
      call('HSETNX', JOBHOSTS .. number, a[1], 0)  -- needed to delete the data of the job
      reject(a[1], line_of(number, a[2]), a[3], a[4])
    end
    if s[FOUND] then
      local n, d, o = admit(number, s[FOUND])
      new, duplicates, over_budget = new + n, duplicates + d, over_budget + o
    end
    for _, out in ipairs(s[OTHERS] or {}) do send(out[1], number, out[2], false, out[3]) end
  else
    accepted[i] = '0'
    count(number, 'stale', 1)
  end
end

for i = 1, #batch do settle(i, batch[i]) end
store_grown()
sliced.store_slices()
if condition then call('HSET', JOURNALS .. condition[1], condition[2], condition[4]) end
if next(touched) then store_hosts() end
return finish(table.concat(accepted) .. ' ' .. new .. ' ' .. duplicates .. ' ' .. over_budget .. ' ' .. buried)
