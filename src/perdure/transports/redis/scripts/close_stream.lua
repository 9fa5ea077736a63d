--@include flows
-- close_stream: notes that an edition is over. One that has ended is in pieces as a whole.
-- KEYS  1 about, 2 tail, 3 pieces, 4 readers, 5 places
-- ARGV  1 edition, 2 place, 3 where to wake, 4 what to say, 5 seconds to keep it, 6 end, over or restart, 7 message, 8 chunks,
--       then per piece: the number of its last chunk, bytes, message
-- returns 1; 0: another edition is there
local edition, known = tonumber(ARGV[1]), number('e')
if known > edition then return 0 end
if known < edition then enter(edition) end
if ARGV[6] == 'restart' then
  redis.call('HSET', ABOUT, 'x', ARGV[7])
else
  redis.call('HDEL', ABOUT, 'x')
  redis.call('HSET', ABOUT, 'o', ARGV[7])
end
if ARGV[6] == 'end' then
  redis.call('DEL', TAIL, PIECES)
  local kept, last = 0, tonumber(ARGV[8])
  for i = 9, #ARGV, 3 do
    kept = kept + tonumber(ARGV[i + 1])
    redis.call('ZADD', PIECES, ARGV[i], kept .. '\n' .. ARGV[i + 2])
  end
  redis.call('HSET', ABOUT, 'b', last + 1, 'n', last + 1, 't', kept, 'k', kept)
end
wake('r')
wake('w')
touch()
return 1
