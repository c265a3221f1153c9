-- upgrade_deadlines: up to layout 4 a worker's tokens were in a set, and its last heartbeat had their deadline.
-- asks    { who, for how many milliseconds }
-- answers 1
-- uses    bare upgrading
for _, worker in ipairs(call('ZRANGE', HOLDERS, 0, -1)) do
  local key = HELD .. worker
  if call('TYPE', key).ok == 'set' then
    local tokens, extended = call('SMEMBERS', key), call('HGET', EXTENDED, worker)
    local until_token, until_ = 0, 0
    if extended then until_token, until_ = struct.unpack('<dd', extended) end
    call('DEL', key)
    for _, token in ipairs(tokens) do
      local record = call('HGET', LEASES, token)
      if record then
        local _, _, _, deadline = struct.unpack('<I6i4dd', record)
        if tonumber(token) <= until_token then deadline = until_ end
        call('ZADD', key, string.format('%.17g', deadline), token)
      end
    end
  end
end
call('DEL', EXTENDED)
return 1
