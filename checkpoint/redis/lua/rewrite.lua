local thread, ns, token, head, rewrites, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local function key(kind) return T .. ':' .. kind .. ':' .. ns end

local w = call('HGET', T, 'w')
if w and string.sub(w, 1, 8) == token then return {'ok'} end -- sent again, see write.lua
local info = call('HMGET', key('l'), 'h', 'w', 'c', 'z')
if not info[1] then return {'missing'} end
local held = lease(T)
if held and held.live then return {'busy', held.holder, held.till, held.ttl} end
if info[1] ~= head then return {'conflict', info[1]} end
-- What the client planned is right only for the log that it read.
if (info[2] or '0') ~= rewrites then return {'again'} end
call('HLEN', key('i'))
call('HLEN', key('m'))
call('HLEN', key('d'))
call('LLEN', key('g'))
checkindexes()

-- To shorten a log is allowed when memory is short. From here on nothing fails.
local all, first, ix, due = ARGV[7] == '1', ARGV[8], ARGV[9], ARGV[10]
local want, gone = {}, unpacked(ARGV[11])
if all then
  for _, kind in ipairs({'l', 'g', 'i', 'm', 'd'}) do call('UNLINK', key(kind)) end
  if call('EXISTS', key('o')) == 0 then call('SREM', T .. ':s', ns) end
else
  local count, size = tonumber(info[3]), tonumber(info[4])
  for i = 1, #gone, 2 do -- place and ID
    size = size - call('HSTRLEN', key('m'), gone[i]) - call('HSTRLEN', key('d'), gone[i])
    call('HDEL', key('m'), gone[i])
    call('HDEL', key('d'), gone[i])
    call('HDEL', key('i'), gone[i + 1])
    count = count - 1
  end
  for i = 14, #ARGV, 3 do
    local n, body, data = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    local old = call('HGET', key('m'), n)
    local entry = string.sub(old, 1, 8) .. string.match(old, '^%d+;%d+;', 9) .. body
    size = size - #old - call('HSTRLEN', key('d'), n) + #entry + #data
    call('HSET', key('m'), n, entry)
    if #data > 0 then call('HSET', key('d'), n, data) else call('HDEL', key('d'), n) end
  end
  for _, b in ipairs(unpacked(ARGV[13])) do call('HDEL', key('l'), 'b' .. b) end
  call('DEL', key('g'))
  for _, g in ipairs(unpacked(ARGV[12])) do call('RPUSH', key('g'), g) end
  call('HSET', key('l'), 'c', str(count), 'z', str(size), 'f', first, 'w', str(tonumber(rewrites) + 1))
end
if ns == '' and (all or ix ~= '') then
  local wk = call('HGET', T, 'wk') or ''
  call('HSET', T, 'hd', due)
  want[1] = ix
  if due ~= '' and (wk == '' or due < wk) then want[2] = due else want[2] = wk end
end
call('HSET', T, 'w', token .. (call('HGET', T, 'f') or '0') .. ';0;')
if next(want) then place(thread, want) end
refresh(thread, ttl, {T .. ':s', key('l'), key('g'), key('i'), key('m'), key('d'), key('o')})
return {'ok'}
