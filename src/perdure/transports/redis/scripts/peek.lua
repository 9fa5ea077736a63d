--@include streams
--@include turns
--@include choice
-- peek: about what a claim of one queue would give, without giving it; a worker of several queues compares them.
-- KEYS  1 lanes
-- ARGV  1 what the names of lanes begin with, 2 how many at most, 3 how many types follow (-1: everything fits),
--       then the types, then the functions, and with a ! in front the functions it lacks; `=n` and `=n@U` as in claim
-- returns a list: priority, tenant, its last turn, sent at, priority, tenant, …
local found, MOST_TENANTS, MOST_LANES = {}, 1000, 100
local limit, fits, room, base = tonumber(ARGV[2]), fitting(3), rooms(3), base_of(ARGV[1])

-- When the next tasks of a lane were sent, oldest first: those its group has not given out yet.
local function upcoming(stream, count)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if groups.err then return {} end
  local last = '0-0'
  for _, group in ipairs(groups) do
    if field_of(group, 'name') == WORKERS then last = field_of(group, 'last-delivered-id') end
  end
  local sent = {}
  for _, entry in ipairs(redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', count)) do
    sent[#sent + 1] = order_of(field_of(entry[2], 'at'))
  end
  return sent
end

-- The tenants for whom there is something that fits: {tenant, last turn, lanes}.
local function tenants_of(priority, most)
  local tenants = {}
  local rows = sorted('ZRANGE', base .. 'turns:' .. priority, 0, MOST_TENANTS - 1, 'WITHSCORES')
  for i = 1, #rows, 2 do
    local lanes = {}
    for _, lane in ipairs(sorted('ZRANGE', base .. 'waiting:' .. priority .. ':' .. rows[i], 0, MOST_LANES - 1)) do
      if fits(lane) then lanes[#lanes + 1] = lane end
    end
    if #lanes > 0 and room[rows[i]] > 0 then tenants[#tenants + 1] = { rows[i], rows[i + 1], lanes } end
    if #tenants == most then break end
  end
  return tenants
end

local priority = next_priority(KEYS[1])
while priority and #found < limit * 4 do
  local tenants = tenants_of(priority, limit - #found / 4)
  for _, one in ipairs(tenants) do
    local each = math.ceil(limit / #tenants / #one[3])
    for _, lane in ipairs(one[3]) do
      for _, sent in ipairs(upcoming(ARGV[1] .. lane, each)) do
        for _, value in ipairs({ priority, one[1], one[2], written(sent) }) do found[#found + 1] = value end
      end
    end
  end
  priority = next_priority(KEYS[1], priority)
end
return found
