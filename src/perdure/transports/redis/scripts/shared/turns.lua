-- Whose turn it is. `turns:P` of a queue has the tenants for whom tasks of priority P wait, by when they had their last turn;
-- `waiting:P:TENANT` has the lanes in which these tasks stand, by when the first of them was sent. Both only say where to look:
-- what may be given out stands in the streams and in `held`.

local function base_of(streams) return string.sub(streams, 1, -7) end -- without `tasks:`

-- The keys and the tenant of a lane; nil for the lane of the adopted, and for what is none.
local function turns_of(streams, lane)
  local priority, name = string.match(lane, '^([^:]*):[^:]*:([^:]*)$')
  if not priority then return nil end
  local tenant, base = string.match(name, '@(.*)$') or '', base_of(streams)
  return base .. 'turns:' .. priority, base .. 'waiting:' .. priority .. ':' .. tenant, tenant, priority
end

local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function written(number) return string.format('%.0f', number) end

-- A number that a client wrote and that is used only for sorting; what is no number comes first.
local function order_of(text)
  local number = tonumber(text)
  if not number or number ~= number or math.abs(number) > 1e17 then return 0 end
  return number
end

-- A command on a sorted set; a key in its place that is none is deleted.
local function sorted(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if is_wrong(reply) then
    redis.call('DEL', key)
    reply = redis.pcall(command, key, ...)
  end
  return reply
end

local function field_of(fields, name)
  for i = 1, #fields, 2 do
    if fields[i] == name then return fields[i + 1] end
  end
end

-- A task waits in this lane: its tenant takes part, and comes after all who have waited longer.
local function enlist(streams, lane, sent_at)
  local turns, waiting, tenant, priority = turns_of(streams, lane)
  if not turns then return end
  sorted('ZADD', base_of(streams) .. 'lanes', 'NX', order_of(priority), lane)
  sorted('ZADD', waiting, 'NX', written(order_of(sent_at)), lane)
  sorted('ZADD', turns, 'NX', written(microseconds()), tenant)
end

-- No task waits in this lane.
local function unlist(streams, lane)
  local turns, waiting, tenant = turns_of(streams, lane)
  if not turns then return end
  sorted('ZREM', waiting, lane)
  if redis.call('EXISTS', waiting) == 0 then sorted('ZREM', turns, tenant) end
end
