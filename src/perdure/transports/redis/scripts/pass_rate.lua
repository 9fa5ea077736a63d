-- pass_rate: lets so many pass as a rate allows: never more than the limit in any stretch of its length.
-- It counts by slices of time; those that lie wholly before the last stretch are forgotten.
-- KEYS  1 rate
-- ARGV  1 limit, 2 length (milliseconds), 3 slices of a length, 4 how many want to pass
-- returns how many may, how many more could, and after how many milliseconds the next one can
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local limit, length, slices, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local width = length / slices
local current = math.floor(now / width)
local passed, oldest = 0, current
local counts = redis.call('HGETALL', KEYS[1])
for i = 1, #counts, 2 do
  -- Fields that are no number or lie in the future go too: Perdure wrote neither.
  local slice, count = tonumber(counts[i]), tonumber(string.match(counts[i + 1], '^%d+$'))
  if not count or not slice or not (slice >= current - slices and slice <= current + slices) then
    redis.call('HDEL', KEYS[1], counts[i])
  else
    passed = passed + count
    oldest = math.min(oldest, slice)
  end
end
local may = math.max(0, math.min(wanted, limit - passed))
if may > 0 then
  redis.call('HINCRBY', KEYS[1], string.format('%.0f', current), may)
  redis.call('PEXPIRE', KEYS[1], math.ceil(length + 2 * width))
end
return { may, math.max(0, limit - passed - may), math.ceil((oldest + slices + 1) * width - now) }
