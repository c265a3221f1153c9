-- bare: for scripts that run on a shard of any layout. ARGV as in base.
local call, max = redis.call, math.max
local ask = cmsgpack.unpack(ARGV[4])
local before = call('TYPE', METABEFORE).ok == 'hash'  -- layout 4 or older: its facts are still there
local facts = before and METABEFORE or META
