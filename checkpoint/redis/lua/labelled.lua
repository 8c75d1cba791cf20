-- The threads that have all labels, each with its place in the index by time. The answer
-- begins with '1', or is '0' alone if there are threads whose labels are not known.
if call('HLEN', P .. 'i:labels') ~= call('ZCARD', P .. 'i:threads') then return {'0'} end
local keys, out = {}, {'1'}
for i, label in ipairs(ARGV) do keys[i] = P .. 'i:l:' .. label end
for _, id in ipairs(call('SINTER', unpack(keys))) do
  out[#out + 1] = id
  out[#out + 1] = places(id)[1] or ''
end
return out
