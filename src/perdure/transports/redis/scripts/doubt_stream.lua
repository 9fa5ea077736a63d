--@include flows
-- doubt_stream: what shows that another edition has taken the place of this one, or that this one begins anew. What nothing shows
-- was written by another client, and is forgotten.
-- KEYS  1 about, 2 tail, 3 pieces, 4 readers, 5 places
-- ARGV  1 edition, 2 place, 3 where to wake, 4 what to say, 5 seconds to keep it, 6 the edition to forget, or nothing
-- returns [the edition that is there, how it begins anew, its last chunks, a piece, how it ended, who goes on], each a message or nothing
local there = redis.call('HGET', ABOUT, 'e') or ''
if ARGV[6] ~= '' then
  if there ~= ARGV[6] then return { there, '', '', '', '', '' } end
  if number('e') == tonumber(ARGV[1]) then
    redis.call('HDEL', ABOUT, 'x', 'a', 'g')
  else
    redis.call('DEL', ABOUT, TAIL, PIECES, READERS)
  end
  return { '', '', '', '', '', '' }
end
local entry = redis.call('XREVRANGE', TAIL, '+', '-', 'COUNT', 1)[1]
local piece = redis.call('ZRANGE', PIECES, 0, 0)[1]
return {
  there,
  redis.call('HGET', ABOUT, 'x') or '',
  entry and entry[2][6] or '',
  piece and string.match(piece, '^%d+\n(.*)$') or '',
  redis.call('HGET', ABOUT, 'o') or '',
  redis.call('HGET', ABOUT, 'g') or '',
}
