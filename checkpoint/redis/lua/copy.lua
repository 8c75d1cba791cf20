-- Copies the thread to another. All keys but the first are copied as they are.
local from, to, token, ttl = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local source, target = T, threadkey(to)
if call('EXISTS', source) == 0 then return {'missing'} end
if call('EXISTS', target) == 1 then
  local w = call('HGET', target, 'w')
  if w and string.sub(w, 1, 8) == token then return {'ok'} end -- sent again, see write.lua
  return {'exists'}
end
checkindexes()
local th = call('HMGET', source, 'hd', 'wk', 'p', 'rn')
call('HSET', target, 'v', '1', 'hd', th[1] or '', 'wk', th[2] or '', 'p', th[3] or '0', 'rn', th[4] or '0', 'w', token .. '0;0;')
for _, k in ipairs(keysof(source)) do
  if k ~= source then
    local copy = target .. string.sub(k, #source + 1)
    call('COPY', k, copy, 'REPLACE')
    call('PERSIST', copy)
  end
end
forget(to) -- one that ended may still be in the indexes
call('ZADD', P .. 'i:names', 0, to)
local is = places(from)
if is[1] ~= '' then is[1] = is[1] .. (call('HGET', P .. 'i:labels', from) or '') end
place(to, {is[1], is[2]})
T = target
refresh(to, ttl, {})
return {'ok'}
