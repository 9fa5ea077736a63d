--@include choice
-- peek: what a claim of one queue would give, without giving it; a worker of several queues compares them.
-- KEYS  1 lanes
-- ARGV  1 what the names of lanes begin with, 2 how many at most, 3 how many types follow (-1: everything fits),
--       then the types, then the functions, and with a ! in front the functions it lacks
-- returns a list: priority, sent at, priority, sent at, …
local found = {}
local limit = tonumber(ARGV[2])
for _, class in ipairs(classes(fitting(KEYS[1], 3))) do
  local left = limit - #found / 2
  if left <= 0 then break end
  for _, head in ipairs(oldest(class[2], ARGV[1], left)) do
    found[#found + 1] = tostring(class[1])
    found[#found + 1] = string.format('%.0f', head[2])
  end
end
return found
