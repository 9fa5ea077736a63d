-- Finding the entry of a task, and removing it.
-- A value of `held` is "<entry id> <flag> <lane>"; the flag is "s" when the task should stop, else "-".

local function find(held, task)
  local value = redis.call('HGET', held, task)
  if not value then return nil end
  local entry, flag, lane = string.match(value, '^(%d+%-%d+) (%S) (.*)$')
  if not entry then redis.call('HDEL', held, task) end -- not written by Perdure; left there, the task would never be sent again
  return entry, flag, lane
end

local function is_there(stream, entry)
  local found = redis.pcall('XRANGE', stream, entry, entry)
  return not found.err and #found > 0
end

-- The worker that has an entry, and for how many milliseconds; nil if it is queued, or gone.
local function claimed_by(stream, entry)
  local pending = redis.pcall('XPENDING', stream, WORKERS, entry, entry, 1)
  if pending.err or not pending[1] then return nil end
  return pending[1][2], pending[1][3]
end

local function remove(lanes, streams, lane, entry)
  local stream = streams .. lane
  redis.pcall('XACK', stream, WORKERS, entry)
  redis.pcall('XDEL', stream, entry)
  if length(stream) == 0 then
    redis.call('DEL', stream)
    redis.call('ZREM', lanes, lane)
    unlist(streams, lane)
  end
end

-- Whether an entry is the delivery of its task, and not a copy that another client made: `held` says where that stands.
local function is_out(held, lane, entry)
  local task = entry[2] and field_of(entry[2], 'task')
  local value = task and redis.pcall('HGET', held, task)
  if is_wrong(value) then redis.call('DEL', held) end
  if type(value) ~= 'string' then return false end
  local id, place = string.match(value, '^(%d+%-%d+) %S (.*)$')
  return id == entry[1] and place == lane
end

local function drop(held, lanes, streams, task, lane, entry)
  redis.call('HDEL', held, task)
  remove(lanes, streams, lane, entry)
end
