--@include flows
-- keep_piece: lets go of chunks that are stored in a piece.
-- KEYS  1 about, 2 tail, 3 pieces, 4 readers, 5 places
-- ARGV  1 edition, 2 place, 3 where to wake, 4 what to say, 5 seconds to keep it, 6 the number of its last chunk, 7 bytes, 8 message
-- returns 1; 0: another edition has taken its place
if not enter(tonumber(ARGV[1])) then return 0 end
local upto = tonumber(ARGV[6])
if upto >= number('b') then
  local kept = number('k') + tonumber(ARGV[7])
  redis.call('ZADD', PIECES, upto, kept .. '\n' .. ARGV[8])
  redis.call('HSET', ABOUT, 'b', upto + 1, 'k', kept)
  if number('n') <= upto then redis.call('HSET', ABOUT, 'n', upto + 1) end
  if number('t') < kept then redis.call('HSET', ABOUT, 't', kept) end
  trim(upto + 1)
  wake('r')
end
touch()
return 1
