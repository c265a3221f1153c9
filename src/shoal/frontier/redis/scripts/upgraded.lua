-- upgraded: the shard has the next layout. After the last step, all scripts may use it again.
-- asks    { who, for how many milliseconds, the layout it has, whether that was the last }
-- answers 1
-- uses    bare upgrading
call('HSET', META, 'upgraded', ask[3])
if ask[4] then
  call('HSET', META, 'layout', ask[3])
  call('HDEL', META, 'upgraded')
  call('DEL', UPGRADE)
end
return 1
