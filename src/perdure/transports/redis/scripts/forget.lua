--@include streams
--@include turns
--@include entries
-- forget: takes the tasks of a dead worker from it. Lost ones are no longer held; reported ones stay until acknowledged.
-- KEYS  1 held, 2 lanes, 3 forgotten
-- ARGV  1 what the names of lanes begin with, 2 lane of the adopted, 3 worker, 4 seconds to remember it,
--       5 how many tasks are lost, then these, then those reported
-- returns {1 if it still has others, lost task, …}
local time = redis.call('TIME')
local now, answer = tonumber(time[1]), { 0 }
for i = 6, #ARGV do
  local task, lost = ARGV[i], i < 6 + tonumber(ARGV[5])
  local entry, _, lane = find(KEYS[1], task)
  local stream = entry and ARGV[1] .. lane
  if entry and claimed_by(stream, entry) == ARGV[3] then
    if lost then
      drop(KEYS[1], KEYS[2], ARGV[1], task, lane, entry)
      redis.call('ZADD', KEYS[3], now, task)
      answer[#answer + 1] = task
    else
      redis.call('XCLAIM', stream, WORKERS, 'gone', 0, entry, 'JUSTID')
    end
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - tonumber(ARGV[4]))
redis.call('EXPIRE', KEYS[3], ARGV[4])
local lanes = redis.call('ZRANGE', KEYS[2], 0, -1)
lanes[#lanes + 1] = ARGV[2]
for _, lane in ipairs(lanes) do
  local pending = redis.pcall('XPENDING', ARGV[1] .. lane, WORKERS, '-', '+', 1, ARGV[3])
  if not pending.err then
    if #pending > 0 then
      answer[1] = 1
    else
      redis.call('XGROUP', 'DELCONSUMER', ARGV[1] .. lane, WORKERS, ARGV[3])
    end
  end
end
return answer
