-- is_seen: whether the job has admitted that fingerprint.
-- asks    { job's number, fingerprint }
-- answers 1 or 0
-- uses    base seen
local job = job_of(ask[1])
if not job then return 0 end
return has_seen(ask[1], job, ask[2]) and 1 or 0
