-- Streams that anybody may have spoilt. What stands in the place of a stream and is none is taken away.

local function is_wrong(reply)
  return type(reply) == 'table' and reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) ~= nil
end

-- How many entries it has; 0: it is not there, or was taken away.
local function length(stream)
  local number = redis.pcall('XLEN', stream)
  if type(number) == 'number' then return number end
  if is_wrong(number) then redis.call('DEL', stream) end
  return 0
end
