--@include streams
-- tidy: takes empty streams away, with their groups.
-- KEYS  results of each partition
-- ARGV  none
-- returns nothing
for _, stream in ipairs(KEYS) do
  if length(stream) == 0 then redis.call('DEL', stream) end
end
return redis.status_reply('OK')
