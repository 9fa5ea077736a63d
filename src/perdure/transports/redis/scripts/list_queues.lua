--@include streams
-- list_queues: how many tasks of one queue wait, and how many are claimed by workers.
-- KEYS  1 lanes
-- ARGV  1 what the names of lanes begin with, 2 lane of the adopted
-- returns {waiting, claimed}
local waiting, claimed = 0, 0
local lanes = redis.call('ZRANGE', KEYS[1], 0, -1)
lanes[#lanes + 1] = ARGV[2]
for _, lane in ipairs(lanes) do
  local stream = ARGV[1] .. lane
  local pending = redis.pcall('XPENDING', stream, WORKERS)
  local given = pending.err and 0 or pending[1] -- without a group nothing was given out
  waiting = waiting + length(stream) - given
  claimed = claimed + given
end
return { waiting, claimed }
