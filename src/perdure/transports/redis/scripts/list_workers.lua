-- list_workers: every worker that has beaten, and how long it has been silent by the server's clock.
-- KEYS  1 seen, 2 beats
-- ARGV  none
-- returns a list: milliseconds, what it said, milliseconds, what it said, …
local time = redis.call('TIME')
local now, answer = time[1] * 1000 + math.floor(time[2] / 1000), {}
local rows = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #rows, 2 do
  local said = redis.call('HGET', KEYS[2], rows[i])
  if said then
    answer[#answer + 1] = math.max(0, now - rows[i + 1])
    answer[#answer + 1] = said
  end
end
return answer
