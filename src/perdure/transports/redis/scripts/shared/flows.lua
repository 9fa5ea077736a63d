-- One stream of a run. `about` has: e edition, b the number of the first chunk of the tail, n the next number, t the bytes so far,
-- k those that are kept, a the last attempt that goes on with it, g what shows that, o how it ended, x that it begins anew, r and w the processes whose readers and writer wait.
local ABOUT, TAIL, PIECES, READERS, PLACES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local function number(field) return tonumber(redis.call('HGET', ABOUT, field)) or 0 end

-- Wakes the processes that wait: their readers (r), or their writer (w).
local function wake(field)
  local names = redis.call('HGET', ABOUT, field)
  if not names then return end
  redis.call('HDEL', ABOUT, field)
  for name in string.gmatch(names, '%S+') do redis.call('PUBLISH', ARGV[3] .. name, ARGV[4]) end
end

local function await(field, process)
  local names = redis.call('HGET', ABOUT, field) or ''
  if #names < 100000 and not string.find(' ' .. names .. ' ', ' ' .. process .. ' ', 1, true) then
    redis.call('HSET', ABOUT, field, names .. ' ' .. process)
  end
  redis.call('HSET', PLACES, ARGV[2], 1)
  redis.call('EXPIRE', ABOUT, ARGV[5])
  redis.call('EXPIRE', PLACES, ARGV[5])
end

local function touch()
  for i = 1, 5 do redis.call('EXPIRE', KEYS[i], ARGV[5]) end
end

-- Whether this edition is the current one. A newer one than is there takes its place.
local function enter(edition)
  local known = number('e')
  if known > edition then return false end
  if known == edition then return not redis.call('HGET', ABOUT, 'x') end
  wake('r')
  wake('w')
  redis.call('DEL', ABOUT, TAIL, PIECES, READERS)
  redis.call('HSET', ABOUT, 'e', edition, 'b', 1, 'n', 1, 't', 0, 'k', 0)
  redis.call('HSET', PLACES, ARGV[2], 1)
  return true
end

-- Whether a later attempt goes on with this edition.
local function is_late(attempt) return attempt > 0 and number('a') > attempt end

-- Lets go of what is in pieces: all before this number.
local function trim(base)
  local holds = redis.call('XREVRANGE', TAIL, base .. '-0', '-', 'COUNT', 1)[1]
  for _, entry in ipairs(redis.call('XRANGE', TAIL, '-', '(' .. (holds and holds[1] or base .. '-0'))) do
    redis.call('XDEL', TAIL, entry[1])
  end
end
