-- A page of an index by time. The answer begins with the server's clock and the member
-- from which it goes on, '' at the end.
local clock = call('TIME')
local out, most = {clock[1], clock[2], ''}, tonumber(ARGV[4])
local page = call('ZRANGEBYLEX', P .. ARGV[1], ARGV[2], ARGV[3], 'LIMIT', 0, most)
for _, member in ipairs(page) do
  local id = string.sub(member, 17)
  local header = call('HGET', threadkey(id), 'h')
  if header then
    out[#out + 1], out[#out + 2] = id, header
  else
    pcall(forget, id)
  end
end
if #page == most then out[3] = page[most] end
return out
