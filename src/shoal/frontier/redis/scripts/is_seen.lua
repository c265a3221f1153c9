-- is_seen: whether the job has admitted that fingerprint.
-- asks    { job's number, fingerprint }
-- answers 1 or 0
-- uses    base seen slices
local job = job_of(ask[1])
if not job then return 0 end
return sliced.has_seen_page(ask[1], job, ask[2]) and 1 or 0
