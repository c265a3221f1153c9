-- upgrading: for scripts that change the layout. ask[1] is the process that does it, ask[2] for how many milliseconds it holds
-- the shard from now on. If it was silent for longer than that, another process may have taken the shard.
if call('GET', UPGRADE) ~= ask[1] then return redis.error_reply('TAKEN by another') end
call('PEXPIRE', UPGRADE, ask[2])
