-- acknowledge: what these results led to is durable; they go.
-- KEYS  results of each partition
-- ARGV  for each partition: how many entries, then their ids
-- returns how many were there
local number, first = 0, 1
for _, stream in ipairs(KEYS) do
  local last = first + tonumber(ARGV[first])
  redis.pcall('XACK', stream, COORDINATORS, unpack(ARGV, first + 1, last))
  local deleted = redis.pcall('XDEL', stream, unpack(ARGV, first + 1, last))
  if type(deleted) == 'number' then number = number + deleted end -- an error: somebody put something else there
  first = last + 1
end
return number
