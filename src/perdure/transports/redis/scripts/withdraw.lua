-- withdraw: removes the wish of a worker that no longer wishes to begin.
-- KEYS  1 begins, 2 grant
-- ARGV  1 task id, 2 the wish
-- returns nothing
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
redis.call('DEL', KEYS[2])
return redis.status_reply('OK')
