--@include flows
-- leave_stream: forgets a reader, which holds nobody up any more.
-- KEYS  1 about, 2 tail, 3 pieces, 4 readers, 5 places
-- ARGV  1 edition (0), 2 place, 3 where to wake, 4 what to say, 5 seconds to keep it, 6 reader
-- returns how many were forgotten
local gone = redis.call('ZREM', READERS, ARGV[6])
if gone == 1 then wake('w') end
return gone
