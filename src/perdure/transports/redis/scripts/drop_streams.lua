-- drop_streams: forgets every stream of a run.
-- KEYS  1 places
-- ARGV  1 what the keys of its streams begin with
-- returns how many there were
local places = redis.call('HGETALL', KEYS[1])
for i = 1, #places, 2 do
  for _, what in ipairs({ ':about:', ':tail:', ':pieces:', ':readers:' }) do
    redis.call('DEL', ARGV[1] .. what .. places[i])
  end
end
redis.call('DEL', KEYS[1])
return #places / 2
