-- Describes threads: those after a place in the index, or those that are named.
-- The answer begins with the place that was reached, '' for the end.
local out = {''}
local function describe(id)
  local t = threadkey(id)
  local info = call('HMGET', t .. ':l:', 'n', 'c', 'z', 'f')
  if not info[1] then
    if call('EXISTS', t) == 0 then pcall(forget, id) end
    return 0
  end
  local entry = call('HGET', t .. ':m:', info[1]) or ''
  local l, k = lease(t), #out
  out[k + 1], out[k + 2], out[k + 3] = id, info[1], entry
  out[k + 4], out[k + 5], out[k + 6] = info[2], info[3], info[4]
  if l and l.live then
    out[k + 7], out[k + 8], out[k + 9] = l.holder, l.till, l.ttl
  else
    out[k + 7], out[k + 8], out[k + 9] = '', '', ''
  end
  return #entry
end
if ARGV[1] == 'named' then
  for i = 2, #ARGV do describe(ARGV[i]) end
  return out
end
local after, most, bytes, size = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), 0
local page = call('ZRANGEBYLEX', P .. 'i:threads', after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, most)
for i, member in ipairs(page) do
  size = size + describe(string.sub(member, 25))
  if size >= bytes or i == most then
    out[1] = member
    break
  end
end
return out
