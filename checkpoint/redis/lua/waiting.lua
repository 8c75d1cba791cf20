-- A page of threads that are due, or whose lease ran out. The answer begins with
-- the place that was reached, '' for the end.
local index, after, before, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local min, max = '-', '+'
if index == 'i:until' then
  max = '(' .. timekey(now + 1)
elseif index == 'i:since' then
  min = '(' .. timekey(now + 1) -- begun in the future: the clock was set back
elseif before ~= '' then
  max = '(' .. before
end
if after ~= '' then min = '(' .. after end
local out = {''}
local page = call('ZRANGEBYLEX', P .. index, min, max, 'LIMIT', 0, most)
for _, member in ipairs(page) do
  local id = string.sub(member, 25)
  local t = threadkey(id)
  local l = lease(t)
  if call('EXISTS', t) == 0 then
    pcall(forget, id)
  elseif not (l and l.live) and (l or index == 'i:due') then
    l = l or {holder = '', till = '', ttl = ''}
    for _, v in ipairs({id, places(id)[2] or '', l.holder, l.till, l.ttl}) do out[#out + 1] = v end
  end
end
if #page == most then out[1] = page[#page] end
return out
