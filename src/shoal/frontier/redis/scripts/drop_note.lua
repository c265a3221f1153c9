-- drop_note: deletes a note.
-- asks    { key }
-- answers 1
-- uses    base
though_full()
call('HDEL', NOTES, ask[1])
return 1
