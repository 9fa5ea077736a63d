--@include streams
--@include turns
-- settle: removes tasks that are over: their results are durable, or were refused.
-- KEYS  1 held, 2 lanes
-- ARGV  1 what the names of lanes begin with, then task ids
-- returns how many were held
local places = redis.call('HMGET', KEYS[1], unpack(ARGV, 2))
local entries, number = {}, 0
for _, place in ipairs(places) do
  if place then
    local entry, lane = string.match(place, '^(%d+%-%d+) %S (.*)$')
    if entry then
      entries[lane] = entries[lane] or {}
      table.insert(entries[lane], entry)
    end
    number = number + 1
  end
end
for lane, some in pairs(entries) do
  local stream = ARGV[1] .. lane
  redis.pcall('XACK', stream, WORKERS, unpack(some))
  redis.pcall('XDEL', stream, unpack(some))
  if length(stream) == 0 then
    redis.call('DEL', stream)
    redis.call('ZREM', KEYS[2], lane)
    unlist(ARGV[1], lane)
  end
end
if number > 0 then redis.call('HDEL', KEYS[1], unpack(ARGV, 2)) end
return number
