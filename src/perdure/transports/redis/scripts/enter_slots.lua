-- enter_slots: lets owners into the slots of one limit, as far as there is room. The lease of an owner that is in is renewed.
-- KEYS  1 slots
-- ARGV  1 limit, 2 lease (milliseconds), then owners
-- returns how many are in, then for each owner 1 if it is in, else 0
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local limit, ends = tonumber(ARGV[1]), now + tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
-- No lease is that long: another client wrote it, and would keep the slot for ever.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. (ends + 60000), '+inf')
local taken = redis.call('ZCARD', KEYS[1])
local answer = { 0 }
for i = 3, #ARGV do
  local is_in = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if not is_in and taken < limit then
    taken = taken + 1
    is_in = true
  end
  if is_in then redis.call('ZADD', KEYS[1], ends, ARGV[i]) end
  answer[i - 1] = is_in and 1 or 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
answer[1] = taken
return answer
