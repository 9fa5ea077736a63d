--@include streams
--@include turns
-- publish: puts tasks into the lanes of one queue. A task that is held already stays as it is.
-- KEYS  1 held, 2 lanes
-- ARGV  1 what the names of lanes begin with, 2 channel to wake, 3 how many tasks, then their ids, then for each task:
--       priority, lane, sent at (microseconds), message, signature
-- returns how many were new
local count = tonumber(ARGV[3])
if count == 0 then return 0 end
local there = redis.call('HMGET', KEYS[1], unpack(ARGV, 4, 3 + count))
local made, seen, places = {}, {}, {}
for i = 1, count do
  local task, first = ARGV[3 + i], 4 + count + (i - 1) * 5
  local is_held = there[i] and string.find(there[i], '^%d+%-%d+ %S ') -- any other value was not written by Perdure
  if not is_held and not seen[task] then
    seen[task] = true
    local lane = ARGV[first + 1]
    local stream = ARGV[1] .. lane
    if not made[lane] then
      made[lane] = true
      length(stream) -- deletes a key that is no stream
      if redis.call('ZADD', KEYS[2], 'NX', ARGV[first], lane) == 1 then
        redis.pcall('XGROUP', 'CREATE', stream, WORKERS, '0', 'MKSTREAM') -- an error: a worker's own command made the group
      end
      enlist(ARGV[1], lane, ARGV[first + 2])
    end
    local entry = add(stream,
      'task', task, 'at', ARGV[first + 2], 'message', ARGV[first + 3], 'signature', ARGV[first + 4])
    places[#places + 1] = task
    places[#places + 1] = entry .. ' - ' .. lane
  end
end
if #places == 0 then return 0 end
redis.call('HSET', KEYS[1], unpack(places))
redis.call('PUBLISH', ARGV[2], #places / 2)
return #places / 2
