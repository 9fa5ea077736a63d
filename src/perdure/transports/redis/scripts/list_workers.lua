-- list_workers: every worker that has beaten, and how long it has been silent by the server's clock; of very many, the latest.
-- KEYS  1 seen, 2 beats
-- ARGV  1 the most bytes that one may say, 2 the most that is given in all
-- returns a list: milliseconds, what it said, milliseconds, what it said, …
local time = redis.call('TIME')
local now, answer = time[1] * 1000 + math.floor(time[2] / 1000), {}
-- No worker beats in the future: another client wrote it, which would never be silent and come before all workers.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. (now + 60000), '+inf')
local size = 0
local rows = redis.call('ZREVRANGE', KEYS[1], 0, 9999, 'WITHSCORES')
for i = 1, #rows, 2 do
  local said = redis.call('HGET', KEYS[2], rows[i])
  size = size + (said and #said or 0)
  if size > tonumber(ARGV[2]) then break end
  if said and #said <= tonumber(ARGV[1]) then
    answer[#answer + 1] = math.max(0, now - rows[i + 1])
    answer[#answer + 1] = said
  end
end
return answer
