-- acknowledge: removes results whose consequences are durable.
-- KEYS  results of each partition
-- ARGV  for each partition: how many entries, then their ids
-- returns how many were there
local number, first = 0, 1
for _, stream in ipairs(KEYS) do
  local last = first + tonumber(ARGV[first])
  redis.pcall('XACK', stream, COORDINATORS, unpack(ARGV, first + 1, last))
  local deleted = redis.pcall('XDEL', stream, unpack(ARGV, first + 1, last))
  if type(deleted) == 'number' then number = number + deleted end -- an error: the key holds something else
  first = last + 1
end
return number
