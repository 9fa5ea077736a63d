-- list_reported: which of these tasks have a result that waits to be acknowledged. One page of the stream at a time.
-- KEYS  1 results
-- ARGV  1 entry id to go on behind (`0-0` to begin), 2 size of a page, then task ids
-- returns {entry id to go on behind, empty: that was the last page, task id, …}
local wanted, answer = {}, { '' }
for i = 3, #ARGV do wanted[ARGV[i]] = true end
local page = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[2])
for _, entry in ipairs(page) do
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  if wanted[fields['task']] and fields['kind'] ~= 'checkpointed' then answer[#answer + 1] = fields['task'] end
end
if #page == tonumber(ARGV[2]) then answer[1] = page[#page][1] end
return answer
