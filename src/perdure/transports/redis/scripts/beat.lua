-- beat: notes that a worker lives, by the server's clock.
-- KEYS  1 seen, 2 beats
-- ARGV  1 worker, 2 what it says, 3 seconds to keep it if no coordinator removes it
-- returns nothing
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return redis.status_reply('OK')
