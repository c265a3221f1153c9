-- hasten: delayed tasks of a host become due now, as far as they still wait.
-- asks    { host, { delayed task … } }
-- answers nothing
-- uses    base watch domains hosts leases
though_full()
local name, entries = ask[1], ask[2]
for _, entry in ipairs(entries) do
  local due = tonumber(call('ZSCORE', LATER .. name, entry))
  if due and due > now then
    call('ZADD', LATER .. name, now, entry)
    call('ZADD', DELAYED, 'LT', now, name)
    due_in((read_delayed(entry)), now)
  end
end
return finish('')
