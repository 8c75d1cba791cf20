-- Threads between two members of an index: of i:names, or of i:threads, from the newest
-- minute on, and as many minutes as it takes to have so many. Labels narrow it to those
-- that have them. The answer begins with the member from which it goes on, '' at the end,
-- and whether it was as many.
local named, max, min, most, want = ARGV[1] == '1', ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local index, skip, fewest = P .. (named and 'i:names' or 'i:threads'), named and 0 or 16, nil
for i = 6, #ARGV do
  local n = call('ZCARD', P .. 'i:l:' .. ARGV[i])
  if not fewest or n < fewest then index, fewest = P .. 'i:l:' .. ARGV[i], n end
end
local function labelled(member)
  for i = 6, #ARGV do
    if not call('ZSCORE', P .. 'i:l:' .. ARGV[i], member) then return false end
  end
  return true
end
local out, got = {'', '0'}, 0
local page, minute = call('ZREVRANGEBYLEX', index, max, min, 'LIMIT', 0, most), string.sub(max, 2, 17)
for _, member in ipairs(page) do
  local id, now = string.sub(member, skip + 1), string.sub(member, 1, skip)
  if not named and got >= want and now ~= minute then
    out[2] = '1'
    return out
  end
  minute, out[1] = now, member
  local t = threadkey(id)
  local th = labelled(member) and call('HMGET', t, 'h', 'l')
  if th and not th[1] then
    pcall(forget, id)
  elseif th and th[2] then
    local newest, oldest = span(th[2])
    local k = #out
    out[k + 1], out[k + 2], out[k + 3], out[k + 4] = id, th[1], newest, call('HGET', t .. ':m:', newest) or ''
    out[k + 5] = oldest == newest and out[k + 4] or call('HGET', t .. ':m:', oldest) or ''
    got = got + 1
  end
end
if #page < most then out[1] = '' end
return out
