--@include flows
-- find_behind: how far the slowest reader is; nobody who reads is at 0. With a process, that one is woken when a reader moves.
-- KEYS  1 about, 2 tail, 3 pieces, 4 readers, 5 places
-- ARGV  1 edition, 2 place, 3 where to wake, 4 what to say, 5 seconds to keep it, 6 process or nothing
-- returns [number, bytes since then, readers]; number -1: another edition has taken its place
if not enter(tonumber(ARGV[1])) then return { -1, 0, 0 } end
local slowest = redis.call('ZRANGE', READERS, 0, 0, 'WITHSCORES')
local at = tonumber(slowest[2]) or 0
local before = 0
local entry = redis.call('XREVRANGE', TAIL, at .. '-0', '-', 'COUNT', 1)[1] -- the segment it stands in, or the one before it
if at >= number('b') and entry then
  local upto = tonumber(entry[2][4]) or 0
  local last = tonumber(string.match(entry[1], '^%d+')) + (tonumber(entry[2][2]) or 1) - 1
  if at >= last then
    before = upto
  else
    local previous = redis.call('XREVRANGE', TAIL, '(' .. entry[1], '-', 'COUNT', 1)[1]
    before = previous and tonumber(previous[2][4]) or number('k')
  end
else
  local piece = redis.call('ZRANGE', PIECES, at, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
  before = piece and tonumber(string.match(piece, '^%d+')) or 0
end
if ARGV[6] ~= '' then await('w', ARGV[6]) end
return { at, number('t') - before, #slowest / 2 }
