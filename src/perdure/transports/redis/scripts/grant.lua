-- grant: answers a worker's wish to begin, and removes the wish if it is still the one that was read.
-- KEYS  1 begins, 2 grant
-- ARGV  1 task id, 2 the wish as it was read, 3 the answer, 4 seconds to keep it, 5 channel to wake
-- returns 1 if the wish was still there, else 0
redis.call('SET', KEYS[2], ARGV[3], 'EX', ARGV[4])
redis.call('PUBLISH', ARGV[5], ARGV[1])
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
