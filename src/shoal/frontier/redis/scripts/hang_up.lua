-- hang_up: deletes the remembered answers of callers that will not call again.
-- asks    { caller … }
-- answers 1
-- uses    base
though_full()
for _, caller in ipairs(ask) do call('UNLINK', CALL .. caller) end
return 1
