-- Which lanes a worker may take from, and in which order. Claim and peek share this.

-- Whether a lane fits, for a worker whose types and functions begin at an argument. They are encoded as in lanes. A function
-- with a colon, encoded as %3A, is imported: it fits every worker that did not say that it lacks it.
local function fitting(first)
  local number = tonumber(ARGV[first])
  local types, functions, known = {}, { [''] = true }, {}
  for i = first + 1, #ARGV do
    if i <= first + number then types[ARGV[i]] = true else functions[ARGV[i]] = true end
  end -- what says how much room there is, with a = in front, is among the functions, and is none
  return function(lane)
    if known[lane] == nil then
      local type, name = string.match(lane, '^[^:]*:([^:]*):([^:@]*)@?[^:@]*$')
      local has = name and (functions[name] or (string.find(name, '%3A', 1, true) and not functions['!' .. name]))
      known[lane] = (type and (number < 0 or (types[type] and has))) and true or false
    end
    return known[lane]
  end
end

-- How many tasks of each tenant a worker has room for; without a word of it, for any number.
local function rooms(first)
  local room, others = {}, math.huge
  for i = first + 1, #ARGV do
    local number, tenant = string.match(ARGV[i], '^=(%d+)@?(.*)$')
    if number and string.find(ARGV[i], '@', 1, true) then
      room[tenant] = tonumber(number)
    elseif number then
      others = tonumber(number)
    end
  end
  return setmetatable(room, { __index = function() return others end })
end

-- The highest priority of a task that stands somewhere, below one if that is given; nil: there is none.
local function next_priority(lanes, below)
  local from = below and '(' .. below or '+inf'
  return sorted('ZRANGE', lanes, from, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')[2]
end
