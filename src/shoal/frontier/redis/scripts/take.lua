-- take: takes the shard to change its layout. From now on all scripts fail there, except those of the process that has it.
-- asks    { who, for how many milliseconds }
-- answers { 'done' } if it has this layout already, { 'held', by whom }, { 'used', worker … } if some are alive, or
--         { 'taken', layout to begin with }
-- keeps   no other script runs on a shard while its layout changes. Scripts up to layout 4 do not check it: they fail on
--         the first key that they read
-- uses    bare
local layout = call('HGET', facts, 'layout')
if layout == LAYOUT then return { 'done' } end
local by = call('GET', UPGRADE)
if by and by ~= ask[1] then return { 'held', by } end
if layout ~= 'upgrading' then
  local time = call('TIME')
  local now = max(tonumber(ARGV[1]) or time[1] + time[2] / 1000000, tonumber(call('HGET', facts, 'time')) or 0)
  local alive = call('ZRANGEBYSCORE', ALIVE, string.format('(%.17g', now), '+inf', 'LIMIT', 0, 100)
  if #alive > 0 then return { 'used', unpack(alive) } end
  if before then
    call('RENAME', METABEFORE, META)
    call('SET', METABEFORE, 'this store needs a newer version of Shoal')
  end
  call('HSET', META, 'layout', 'upgrading', 'upgraded', layout)
end
call('SET', UPGRADE, ask[1], 'PX', ask[2])
return { 'taken', call('HGET', META, 'upgraded') }
