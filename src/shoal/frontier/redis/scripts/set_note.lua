-- set_note: compare-and-set of a note.
-- asks    { key, value, version (0: never written) }
-- answers 1, or 0 if the version is another
-- uses    base
though_full()
local said = repeated()
if said then return said end
local known = call('HGET', NOTES, ask[1])
local version = known and unpack_of('<I6', known) or 0
if version ~= ask[3] then return finish('0') end
call('HSET', NOTES, ask[1], pack('<I6', version + 1) .. ask[2])
return finish('1')
