-- cursors: one cursor a job becomes one for each of its sources. Whose the old one was is known if it had reached the end,
--   or if a coordinator feeds the job (its note says so): the spider's own start. Else it was a list of somebody's
--   command: when that is run again, the list is read from its beginning, and most of it is known.
-- asks    { who, for how many milliseconds }
-- answers 1
-- uses    bare upgrading sources
for _, number in ipairs(call('HVALS', JOBS)) do
  local fed, through, spec = unpack(call('HMGET', JOB .. number, 'fed', 'fed_all', 'spec'))
  local own = through or string.find(spec or '', 'fed_by\171coordinator', 1, true)
  if own and not source_of(number, '') then  -- which is there when the step is repeated
    set_source(number, '', tonumber(fed) or 0, through)
  end
  call('HDEL', JOB .. number, 'fed', 'fed_all')
end
return 1
