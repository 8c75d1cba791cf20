-- A page of all threads by name, each with its place in the index by time.
local out = {}
for _, id in ipairs(call('ZRANGEBYLEX', P .. 'i:names', ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])) do
  out[#out + 1] = id
  out[#out + 1] = places(id)[1] or ''
end
return out
