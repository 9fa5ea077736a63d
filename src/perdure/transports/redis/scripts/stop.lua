--@include streams
--@include turns
--@include entries
-- stop: marks tasks; the worker that has one, or claims it, learns of it from the answer to its next beat.
-- KEYS  1 held
-- ARGV  1 what the names of lanes begin with, then task ids
-- returns the workers that have one of them
local workers = {}
for i = 2, #ARGV do
  local entry, _, lane = find(KEYS[1], ARGV[i])
  if entry then
    redis.call('HSET', KEYS[1], ARGV[i], entry .. ' s ' .. lane)
    workers[#workers + 1] = claimed_by(ARGV[1] .. lane, entry)
  end
end
return workers
