--@include streams
--@include turns
--@include entries
-- release: undoes a claim whose claimer is gone; its tasks are queued again, as the last of their lanes.
-- KEYS  1 held
-- ARGV  1 what the names of lanes begin with, 2 channel to wake, 3 worker, then task ids
-- returns how many were given back
local number = 0
for i = 4, #ARGV do
  local entry, flag, lane = find(KEYS[1], ARGV[i])
  local stream = entry and ARGV[1] .. lane
  if entry and claimed_by(stream, entry) == ARGV[3] then
    local there = redis.call('XRANGE', stream, entry, entry)[1]
    if there then
      local again = add(stream, unpack(there[2]))
      redis.call('HSET', KEYS[1], ARGV[i], again .. ' ' .. flag .. ' ' .. lane)
      enlist(ARGV[1], lane, field_of(there[2], 'at'))
      redis.call('XACK', stream, WORKERS, entry)
      redis.call('XDEL', stream, entry)
      number = number + 1
    end
  end
end
if number > 0 then redis.call('PUBLISH', ARGV[2], number) end
return number
