--@include streams
--@include turns
--@include choice
--@include entries
-- claim: gives a worker the most urgent tasks of one queue that it can do. Within one priority tenants take turns, and each is
-- given the oldest of its own. An entry that `held` does not name is no delivery of Perdure, but a copy: it is removed.
-- KEYS  1 lanes
-- ARGV  1 what the names of lanes begin with, 2 worker, 3 how many at most, 4 how many types follow (-1: everything fits),
--       then the types, then the functions, and with a ! in front the functions it lacks; `=n`: not more than n tasks of one
--       tenant, and `=n@U` not more than n of tenant U
-- returns a list of {lane, entry id, fields}, highest priority first, then by turns
local taken, skipped, copies = {}, {}, 0
local limit, fits, room = tonumber(ARGV[3]), fitting(4), rooms(4)
local base, now = base_of(ARGV[1]), microseconds()
local steps = 10000 + limit -- beyond, the server has been held up long enough, and the next claim goes on

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

-- Takes what was read, and returns how many of it were deliveries.
local function accept(lane, entries)
  local before = #taken
  for _, entry in ipairs(entries) do
    steps = steps - 1
    if is_out(base .. 'held', lane, entry) then
      taken[#taken + 1] = { lane, entry[1], entry[2] }
    else
      remove(KEYS[1], ARGV[1], lane, entry[1])
      copies = copies + 1
    end
  end
  return #taken - before
end

-- After a lane was read: its place among its tenant's lanes is that of the task that comes next.
local function replace(waiting, lane, last)
  local coming = redis.pcall('XRANGE', ARGV[1] .. lane, '(' .. last, '+', 'COUNT', 1)
  if coming.err or not coming[1] then
    redis.call('ZREM', waiting, lane)
  else
    redis.call('ZADD', waiting, written(order_of(field_of(coming[1][2], 'at'))), lane)
  end
end

-- Gives tasks of one tenant, from the lane whose first one is the oldest, and returns how many.
local function serve(waiting, count)
  while steps > 0 do
    steps = steps - 1
    local place = skipped[waiting] or 0
    local lane, another = unpack(sorted('ZRANGE', waiting, place, place + 1))
    if not lane then return 0 end
    if not fits(lane) then
      skipped[waiting] = place + 1
    else
      local alone = place == 0 and not another
      local wanted = alone and count or 1
      local entries = read(lane, wanted)
      if #entries < wanted then
        redis.call('ZREM', waiting, lane)
      elseif not alone or wanted < limit then
        replace(waiting, lane, entries[#entries][1])
      end
      local given = accept(lane, entries)
      if given > 0 then return given end
    end
  end
  return 0
end

local function take_turns(priority)
  local turns, place = base .. 'turns:' .. priority, 0
  -- Nobody had a turn in the future: another client wrote that, or the server's clock was set back.
  for _, tenant in ipairs(sorted('ZRANGE', turns, '(' .. written(now), '+inf', 'BYSCORE', 'LIMIT', 0, 100)) do
    redis.call('ZADD', turns, written(now), tenant)
  end
  while #taken < limit and steps > 0 do
    local tenant, another = unpack(redis.call('ZRANGE', turns, place, place + 1))
    if not tenant then return end
    local waiting = base .. 'waiting:' .. priority .. ':' .. tenant
    local alone = place == 0 and not another
    local given = room[tenant] > 0 and serve(waiting, alone and math.min(limit - #taken, room[tenant]) or 1) or 0
    room[tenant] = room[tenant] - given
    steps = steps - 1
    if redis.call('EXISTS', waiting) == 0 then
      redis.call('ZREM', turns, tenant)
    elseif given > 0 then
      now = now + 1
      redis.call('ZADD', turns, written(now), tenant)
    else
      place = place + 1 -- nothing that waits fits this worker, or it has enough of this tenant
    end
  end
end

local priority = next_priority(KEYS[1])
while priority and #taken < limit and steps > 0 do
  steps = steps - 1
  take_turns(priority)
  priority = next_priority(KEYS[1], priority)
end
if copies > 0 then redis.log(redis.LOG_WARNING, copies .. ' entries that are no deliveries were removed from ' .. KEYS[1]) end
return taken
