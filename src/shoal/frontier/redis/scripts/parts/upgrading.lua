-- upgrading: for scripts that change the layout. ask[1] is who does it, ask[2] for how many milliseconds he has the
-- shard from now on. Whoever stopped for longer than that may find that another goes on in his place.
if call('GET', UPGRADE) ~= ask[1] then return redis.error_reply('TAKEN by another') end
call('PEXPIRE', UPGRADE, ask[2])
