-- Streams, which any client may have spoilt: a key in the place of a stream that is none is deleted.

local function is_wrong(reply)
  return type(reply) == 'table' and reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) ~= nil
end

-- How many entries a stream has; 0 if it does not exist, or was deleted here.
local function length(stream)
  local number = redis.pcall('XLEN', stream)
  if type(number) == 'number' then return number end
  if is_wrong(number) then redis.call('DEL', stream) end
  return 0
end

-- Adds an entry and returns its id. A stream whose last possible id another client has used takes no more: it is begun anew,
-- and what was in it is sent again.
local function add(stream, ...)
  local reply = redis.pcall('XADD', stream, '*', ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'exhausted', 1, true) then
    redis.call('DEL', stream)
    redis.call('XGROUP', 'CREATE', stream, WORKERS, '0', 'MKSTREAM')
  end
  return redis.call('XADD', stream, '*', ...)
end
