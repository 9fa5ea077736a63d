-- Which lanes a worker may take from, and what stands in them. Claim and peek share this.

-- Lanes that fit, as {priority, lane}, highest priority first. Names of types and functions are encoded as in lanes. A function
-- with a colon, encoded as %3A, is imported: it fits every worker that did not say that it lacks it.
local function fitting(lanes, first)
  local rows = redis.call('ZREVRANGE', lanes, 0, -1, 'WITHSCORES')
  local number = tonumber(ARGV[first])
  local types, functions, found = {}, { [''] = true }, {}
  for i = first + 1, #ARGV do
    if i <= first + number then types[ARGV[i]] = true else functions[ARGV[i]] = true end
  end
  for i = 1, #rows, 2 do
    local type, name = string.match(rows[i], '^[^:]*:([^:]*):(.*)$')
    local has = functions[name] or (name and string.find(name, '%3A', 1, true) and not functions['!' .. name])
    if number < 0 or (types[type] and has) then
      found[#found + 1] = { tonumber(rows[i + 1]), rows[i] }
    end
  end
  return found
end

-- When the next tasks of a lane were sent, oldest first: those its group has not given out yet.
local function upcoming(stream, count)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if groups.err then return {} end
  local last = '0-0'
  for _, group in ipairs(groups) do
    local fields = {}
    for i = 1, #group, 2 do fields[group[i]] = group[i + 1] end
    if fields['name'] == WORKERS then last = fields['last-delivered-id'] end
  end
  local sent = {}
  for _, entry in ipairs(redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', count)) do
    local at = tonumber(entry[2][4])
    if not at or at ~= at then at = 0 end -- not written by Perdure: it comes first, and is refused
    sent[#sent + 1] = at
  end
  return sent
end

-- How many to take from each of these lanes so that the oldest come first: {lane, sent at}, in that order.
local function oldest(lanes, streams, count)
  local heads = {}
  for _, lane in ipairs(lanes) do
    for _, sent in ipairs(upcoming(streams .. lane, count)) do
      heads[#heads + 1] = { lane, sent, #heads }
    end
  end
  table.sort(heads, function(a, b)
    if a[2] ~= b[2] then return a[2] < b[2] end
    return a[3] < b[3]
  end)
  while #heads > count do heads[#heads] = nil end
  return heads
end

-- Lanes of the same priority together, as {priority, {lane, …}}, highest first.
local function classes(found)
  local all = {}
  for _, row in ipairs(found) do
    local last = all[#all]
    if last and last[1] == row[1] then
      last[2][#last[2] + 1] = row[2]
    else
      all[#all + 1] = { row[1], { row[2] } }
    end
  end
  return all
end
