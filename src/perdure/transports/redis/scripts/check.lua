--@include streams
--@include turns
--@include entries
-- check: which of the tasks a worker runs should stop. The worker adopts tasks that it runs by right and that are no longer
-- held here: after a loss of everything, running work goes on.
-- KEYS  1 held, 2 lanes, 3 forgotten
-- ARGV  1 what the names of lanes begin with, 2 lane of the adopted, 3 worker, then for each task:
--       task id, `1` if this worker was given it, else `0`
-- returns the task ids that should stop
local stops = {}

local function adopt(task)
  local stream = ARGV[1] .. ARGV[2]
  length(stream) -- deletes a key that is no stream
  redis.pcall('XGROUP', 'CREATE', stream, WORKERS, '0', 'MKSTREAM') -- an error: the group exists
  local entry = add(stream, 'task', task)
  -- Given out at once, so that nothing in this stream ever waits for a worker.
  redis.call('XREADGROUP', 'GROUP', WORKERS, ARGV[3], 'STREAMS', stream, '>')
  redis.call('HSET', KEYS[1], task, entry .. ' - ' .. ARGV[2])
end

for i = 4, #ARGV, 2 do
  local task, by_right = ARGV[i], ARGV[i + 1] == '1' and not redis.call('ZSCORE', KEYS[3], ARGV[i])
  local entry, flag, lane = find(KEYS[1], task)
  if not entry then
    if by_right then adopt(task) else stops[#stops + 1] = task end
  else
    local worker = claimed_by(ARGV[1] .. lane, entry)
    if flag == 's' or (worker and worker ~= ARGV[3]) or not (worker or by_right) then
      stops[#stops + 1] = task
    elseif not worker then -- sent again, and no worker has it yet: this one runs it
      drop(KEYS[1], KEYS[2], ARGV[1], task, lane, entry)
      adopt(task)
    end
  end
end
return stops
