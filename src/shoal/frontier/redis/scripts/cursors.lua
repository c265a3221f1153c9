-- cursors: replaces the one cursor of a job by one for each of its sources. If the old one had reached the end, or if a
--   coordinator feeds the job, it was that of the spider's own start. Otherwise it was that of a list: when its command is
--   run again, the list is read from its beginning, and dedupe drops most of it.
-- asks    { who, for how many milliseconds }
-- answers 1
-- uses    bare upgrading sources
for _, number in ipairs(call('HVALS', JOBS)) do
  local fed, through, spec = unpack(call('HMGET', JOB .. number, 'fed', 'fed_all', 'spec'))
  local own = through or string.find(spec or '', 'fed_by\171coordinator', 1, true)
  if own and not source_of(number, '') then  -- it is there if the step is repeated
    set_source(number, '', tonumber(fed) or 0, through)
  end
  call('HDEL', JOB .. number, 'fed', 'fed_all')
end
return 1
