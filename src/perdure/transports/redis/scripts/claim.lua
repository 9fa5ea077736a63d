--@include streams
--@include choice
-- claim: gives a worker the most urgent tasks of one queue that it can do.
-- KEYS  1 lanes
-- ARGV  1 what the names of lanes begin with, 2 worker, 3 how many at most, 4 how many types follow (-1: everything fits),
--       then the types, then the functions, and with a ! in front the functions it lacks
-- returns a list of {lane, entry id, fields}, highest priority first, then oldest first
local taken = {}

local function read(lane, count)
  local stream = ARGV[1] .. lane
  local command = { 'XREADGROUP', 'GROUP', WORKERS, ARGV[2], 'COUNT', count, 'STREAMS', stream, '>' }
  local reply = redis.pcall(unpack(command))
  if reply and reply.err then
    if length(stream) == 0 then
      redis.call('DEL', stream)
      redis.call('ZREM', KEYS[1], lane)
      return {}
    end
    redis.call('XGROUP', 'CREATE', stream, WORKERS, '0') -- the group was lost: entries it had given out come again
    reply = redis.call(unpack(command))
  end
  return reply and reply[1][2] or {}
end

for _, class in ipairs(classes(fitting(KEYS[1], 4))) do
  local left = tonumber(ARGV[3]) - #taken
  if left <= 0 then break end
  local lanes = class[2]
  if #lanes == 1 then
    for _, entry in ipairs(read(lanes[1], left)) do taken[#taken + 1] = { lanes[1], entry[1], entry[2] } end
  else
    local order, number = oldest(lanes, ARGV[1], left), {}
    for _, head in ipairs(order) do number[head[1]] = (number[head[1]] or 0) + 1 end
    local entries, next = {}, {}
    for lane, count in pairs(number) do
      entries[lane], next[lane] = read(lane, count), 1
    end
    for _, head in ipairs(order) do
      local lane = head[1]
      local entry = entries[lane][next[lane]]
      next[lane] = next[lane] + 1
      if entry then taken[#taken + 1] = { lane, entry[1], entry[2] } end
    end
  end
end
return taken
