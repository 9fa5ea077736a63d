-- leave: takes a worker off the list. Its tasks were given to others before, or it has none.
-- KEYS  1 seen, 2 beats
-- ARGV  1 worker
-- returns nothing
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return redis.status_reply('OK')
