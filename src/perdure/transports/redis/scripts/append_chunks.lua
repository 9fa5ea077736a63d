--@include flows
-- append_chunks: adds chunks to a stream. What is there already is dropped by its number; behind a gap nothing is taken.
-- KEYS  1 about, 2 tail, 3 pieces, 4 readers, 5 places
-- ARGV  1 edition, 2 place, 3 where to wake, 4 what to say, 5 seconds to keep it, 6 attempt or 0, then per segment: first number, how many, bytes, message
-- returns the number that is expected next; 0: another edition, or attempt, has taken its place
-- Behind a later id, which only another client can have used, nothing can be added: then all is lost, and the writer sends it again.
if not enter(tonumber(ARGV[1])) or is_late(tonumber(ARGV[6])) then return 0 end
local next, total = number('n'), number('t')
local taken = false
for i = 7, #ARGV, 4 do
  local first, count = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  if first == next then
    total, next, taken = total + tonumber(ARGV[i + 2]), next + count, true
    local added = redis.pcall('XADD', TAIL, first .. '-0', 'n', count, 's', total, 'm', ARGV[i + 3])
    if type(added) == 'table' and added.err then
      if not string.find(added.err, ' ID', 1, true) then return added end
      redis.call('DEL', ABOUT)
      enter(tonumber(ARGV[1]))
      touch()
      return 1
    end
  elseif first + count > next then
    break -- the writer cuts what is new
  end
end
if taken then
  redis.call('HSET', ABOUT, 'n', next, 't', total)
  wake('r')
end
touch()
return next
