--@include streams
--@include turns
--@include entries
-- discard: removes entries that a worker refuses (altered, unsigned, unreadable); the sweep sends their tasks again.
-- KEYS  1 held, 2 lanes
-- ARGV  1 what the names of lanes begin with, then for each: lane, entry id, task id as the entry names it
-- returns nothing
for i = 2, #ARGV, 3 do
  local entry, _, lane = find(KEYS[1], ARGV[i + 2])
  if entry == ARGV[i + 1] and lane == ARGV[i] then redis.call('HDEL', KEYS[1], ARGV[i + 2]) end
  remove(KEYS[2], ARGV[1], ARGV[i], ARGV[i + 1])
end
return redis.status_reply('OK')
