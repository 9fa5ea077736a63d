--@include streams
--@include turns
--@include entries
-- list_claims: the entries of one queue that a worker has. Copies in its name are removed.
-- KEYS  1 lanes
-- ARGV  1 what the names of lanes begin with, 2 lane of the adopted, 3 worker, 4 how many at most, of each lane
-- returns a list of {lane, entry id, fields, milliseconds since it was given}
local found = {}
local lanes = redis.call('ZRANGE', KEYS[1], 0, -1)
lanes[#lanes + 1] = ARGV[2]
for _, lane in ipairs(lanes) do
  local stream = ARGV[1] .. lane
  local pending = redis.pcall('XPENDING', stream, WORKERS, '-', '+', ARGV[4], ARGV[3])
  if not pending.err then
    for _, row in ipairs(pending) do
      local entry = redis.call('XRANGE', stream, row[1], row[1])[1]
      if entry and is_out(base_of(ARGV[1]) .. 'held', lane, entry) then
        found[#found + 1] = { lane, entry[1], entry[2], row[3] }
      elseif entry then
        remove(KEYS[1], ARGV[1], lane, entry[1])
      end
    end
  end
end
return found
