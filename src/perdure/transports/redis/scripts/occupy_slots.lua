-- occupy_slots: renews the leases of running owners; one whose lease was lost enters again, whatever the limit is.
-- KEYS  1 slots
-- ARGV  1 lease (milliseconds), then owners
-- returns how many owners were not in
local time = redis.call('TIME')
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
local lost = 0
for i = 2, #ARGV do
  lost = lost + redis.call('ZADD', KEYS[1], ends, ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return lost
