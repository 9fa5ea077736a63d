--@include streams
--@include turns
--@include entries
-- locate: where tasks are.
-- KEYS  1 held, 2 lanes
-- ARGV  1 what the names of lanes begin with, then task ids
-- returns for each `missing`, `queued`, or `claimed <milliseconds> <worker>`
local answers = {}
for i = 2, #ARGV do
  local entry, _, lane = find(KEYS[1], ARGV[i])
  local answer = 'missing'
  if entry then
    local stream = ARGV[1] .. lane
    local worker, idle = claimed_by(stream, entry)
    if worker then
      answer = 'claimed ' .. idle .. ' ' .. worker
    elseif is_there(stream, entry) then
      answer = 'queued'
      enlist(ARGV[1], lane, string.match(entry, '^%d+') * 1000) -- should another client have taken its place in the order away
    else
      drop(KEYS[1], KEYS[2], ARGV[1], ARGV[i], lane, entry) -- its entry was deleted
    end
  end
  answers[#answers + 1] = answer
end
return answers
