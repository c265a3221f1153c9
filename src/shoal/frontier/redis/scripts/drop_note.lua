-- drop_note: deletes notes.
-- asks    { key … }
-- answers how many there were
-- uses    base
though_full()
local said = repeated()
if said then return said end
local dropped = 0
for _, key in ipairs(ask) do dropped = dropped + call('HDEL', NOTES, key) end
return finish(tostring(dropped))
