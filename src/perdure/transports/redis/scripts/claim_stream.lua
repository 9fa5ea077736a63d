--@include flows
-- claim_stream: lets an attempt go on with an edition, and none before it.
-- KEYS  1 about, 2 tail, 3 pieces, 4 readers, 5 places
-- ARGV  1 edition, 2 place, 3 where to wake, 4 what to say, 5 seconds to keep it, 6 attempt, 7 message that shows it
-- returns [the number that is expected next, its last chunks, its last piece]; number 0: another edition, or attempt, has taken its place
local attempt = tonumber(ARGV[6])
if not enter(tonumber(ARGV[1])) or is_late(attempt) then return { 0, '', '' } end
redis.call('HSET', ABOUT, 'a', attempt, 'g', ARGV[7])
touch()
local entry = redis.call('XREVRANGE', TAIL, '+', '-', 'COUNT', 1)[1]
local piece = redis.call('ZRANGE', PIECES, -1, -1)[1]
return { number('n'), entry and entry[2][6] or '', piece and string.match(piece, '^%d+\n(.*)$') or '' }
