--@include streams
-- receive: gives the results of some partitions to the coordinator that holds them.
-- KEYS  results of each partition
-- ARGV  1 consumer, 2 how many at most, of each, then for each partition:
--       `new`; `tidy`, which also takes an empty stream away; or the milliseconds after which results that others have
--       received are taken over; and where to go on taking over, `0-0` to begin
-- returns for each {where to go on, `0-0`: nowhere, list of {entry id, fields}}
local answers = {}

local function remove_idle(stream) -- consumers without pending results
  for _, row in ipairs(redis.call('XINFO', 'CONSUMERS', stream, COORDINATORS)) do
    local fields = {}
    for i = 1, #row, 2 do fields[row[i]] = row[i + 1] end
    if fields['pending'] == 0 and fields['name'] ~= ARGV[1] then
      redis.call('XGROUP', 'DELCONSUMER', stream, COORDINATORS, fields['name'])
    end
  end
end

-- New entries of all these streams at once; false if one of them, or its group, does not exist.
local function read(streams)
  local command = { 'XREADGROUP', 'GROUP', COORDINATORS, ARGV[1], 'COUNT', ARGV[2], 'STREAMS' }
  for _, stream in ipairs(streams) do command[#command + 1] = stream end
  for _ = 1, #streams do command[#command + 1] = '>' end
  local reply = redis.pcall(unpack(command))
  if reply and reply.err then return false end
  local found = {}
  for _, row in ipairs(reply or {}) do found[row[1]] = row[2] end
  return found
end

local function take_over(stream, milliseconds, cursor)
  return redis.pcall('XAUTOCLAIM', stream, COORDINATORS, ARGV[1], milliseconds, cursor, 'COUNT', ARGV[2])
end

local function is_made(stream) -- whether it exists, then with its group
  length(stream) -- deletes a key that is no stream
  if redis.call('EXISTS', stream) == 0 then return false end
  redis.pcall('XGROUP', 'CREATE', stream, COORDINATORS, '0') -- an error: the group exists
  return true
end

local fresh = {}
for i, stream in ipairs(KEYS) do
  local mode, cursor = ARGV[2 * i + 1], ARGV[2 * i + 2]
  answers[i] = { '0-0', {} }
  if mode == 'tidy' and length(stream) == 0 then
    redis.call('DEL', stream)
  elseif mode == 'new' or mode == 'tidy' then
    fresh[#fresh + 1] = i
  else
    local reply = take_over(stream, mode, cursor)
    if reply.err and is_made(stream) then reply = take_over(stream, mode, cursor) end
    if not reply.err then
      if reply[1] == '0-0' then remove_idle(stream) end
      answers[i] = { reply[1], reply[2] }
    end
  end
end

if #fresh > 0 then
  local streams = {}
  for _, i in ipairs(fresh) do streams[#streams + 1] = KEYS[i] end
  local found = read(streams)
  if not found then
    local made = {}
    for _, stream in ipairs(streams) do
      if is_made(stream) then made[#made + 1] = stream end
    end
    found = #made > 0 and read(made) or {}
  end
  for _, i in ipairs(fresh) do answers[i][2] = found[KEYS[i]] or {} end
end
return answers
