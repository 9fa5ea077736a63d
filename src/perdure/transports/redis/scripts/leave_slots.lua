-- leave_slots: frees the slots of owners that are over. Waiting processes are told if there was no room before.
-- KEYS  1 slots
-- ARGV  1 limit, 2 channel, 3 what to say there, then owners
-- returns how many owners were in
local taken = redis.call('ZCARD', KEYS[1])
local left = redis.call('ZREM', KEYS[1], unpack(ARGV, 4))
if left > 0 and taken >= tonumber(ARGV[1]) then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
return left
