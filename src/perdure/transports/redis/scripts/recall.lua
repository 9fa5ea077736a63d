--@include streams
--@include turns
--@include entries
-- recall: takes tasks back that no worker has.
-- KEYS  1 held, 2 lanes
-- ARGV  1 what the names of lanes begin with, then task ids
-- returns for each `withdrawn`, `claimed` or `unknown`
local answers = {}
for i = 2, #ARGV do
  local entry, _, lane = find(KEYS[1], ARGV[i])
  local answer = 'unknown'
  if entry then
    local stream = ARGV[1] .. lane
    if claimed_by(stream, entry) then
      answer = 'claimed'
    else
      if is_there(stream, entry) then answer = 'withdrawn' end
      drop(KEYS[1], KEYS[2], ARGV[1], ARGV[i], lane, entry)
    end
  end
  answers[#answers + 1] = answer
end
return answers
