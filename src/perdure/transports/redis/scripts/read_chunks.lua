--@include flows
-- read_chunks: gives what comes after a number, and notes that the reader has taken what is before it.
-- KEYS  1 about, 2 tail, 3 pieces, 4 readers, 5 places
-- ARGV  1 edition, 2 place, 3 where to wake, 4 what to say, 5 seconds to keep it, 6 reader, 7 after, 8 process, 9 bytes
-- returns [what, …]: "wait"; "restart"; "chunks", then messages; "kept", then messages of pieces; "over", message
local edition, after, known = tonumber(ARGV[1]), tonumber(ARGV[7]), number('e')
if known > edition or (known == edition and redis.call('HGET', ABOUT, 'x')) then return { 'restart' } end
if known == edition then
  if ARGV[6] ~= '' and redis.call('ZADD', READERS, 'CH', after, ARGV[6]) == 1 then
    redis.call('EXPIRE', READERS, ARGV[5])
    wake('w')
  end
  if after + 1 < number('b') then
    local found = { 'kept' }
    for _, piece in ipairs(redis.call('ZRANGE', PIECES, '(' .. after, '+inf', 'BYSCORE', 'LIMIT', 0, 100)) do
      found[#found + 1] = string.match(piece, '^%d+\n(.*)$')
    end
    return found
  end
  if number('n') > after + 1 then
    local start = redis.call('XREVRANGE', TAIL, after + 1 .. '-0', '-', 'COUNT', 1)[1]
    local found, size = { 'chunks' }, 0
    for _, entry in ipairs(start and redis.call('XRANGE', TAIL, start[1], '+', 'COUNT', 8) or {}) do
      if size > tonumber(ARGV[9]) then break end
      local message = entry[2][6]
      if message then
        found[#found + 1] = message
        size = size + #message
      end
    end
    if #found > 1 then return found end
  end
  local over = redis.call('HGET', ABOUT, 'o')
  if over then return { 'over', over } end
end
await('r', ARGV[8])
return { 'wait' }
