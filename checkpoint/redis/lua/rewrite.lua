local thread, ns, token, head, fence, rewrites, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local function key(kind) return T .. ':' .. kind .. ':' .. ns end

local w = call('HGET', T, 'w')
if w and string.sub(w, 1, 8) == token then return {'ok'} end -- sent again, see write.lua
local info = call('HMGET', key('l'), 'h', 'w', 'c', 'z')
if not info[1] then return {'missing'} end
local held = lease(T)
if held and held.live then return {'busy', held.holder, held.till, held.ttl} end
local f = call('HGET', T, 'f') or '0'
if fence ~= '0' and fence ~= asread(f) then return {'fenced', f} end
if info[1] ~= head then return {'conflict', info[1]} end
-- What the client planned is right only for the log that it read.
if (info[2] or '0') ~= rewrites then return {'again'} end
-- What a log is left with may stand ready, see stage.lua: then the rest goes at once.
local stage, left, size, withdata = ARGV[12], tonumber(ARGV[13]), ARGV[14], tonumber(ARGV[15])
local function staged(kind) return T .. ':~' .. kind .. ':' .. stage end
if stage ~= '' and (call('HLEN', staged('m')) ~= left or call('HLEN', staged('i')) ~= left or call('HLEN', staged('d')) ~= withdata) then
  return {'again'}
end
call('HLEN', key('i'))
call('HLEN', key('m'))
call('HLEN', key('d'))
call('LLEN', key('g'))
checkindexes()

-- To shorten a log is allowed when memory is short. From here on nothing fails.
local all, first, ix, due = ARGV[8] == '1', ARGV[9], ARGV[10], ARGV[11]
local want, gone = {}, unpacked(ARGV[16])
if all then
  for _, kind in ipairs({'l', 'g', 'i', 'm', 'd'}) do call('UNLINK', key(kind)) end
  if call('EXISTS', key('o')) == 0 then call('SREM', T .. ':s', ns) end
else
  local count
  if stage ~= '' then
    count = left
    for _, kind in ipairs({'m', 'd', 'i'}) do
      call('UNLINK', key(kind))
      if call('EXISTS', staged(kind)) == 1 then
        call('RENAME', staged(kind), key(kind))
        call('PERSIST', key(kind))
      end
    end
  else
    count, size = tonumber(info[3]), tonumber(info[4])
  end
  for i = 1, #gone, 2 do -- place and ID
    size = size - call('HSTRLEN', key('m'), gone[i]) - call('HSTRLEN', key('d'), gone[i])
    call('HDEL', key('m'), gone[i])
    call('HDEL', key('d'), gone[i])
    call('HDEL', key('i'), gone[i + 1])
    count = count - 1
  end
  for i = 19, #ARGV, 3 do
    local n, body, data = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    local old = call('HGET', key('m'), n)
    local entry = string.sub(old, 1, 8) .. string.match(old, '^%d+;%d+;', 9) .. body
    size = size - #old - call('HSTRLEN', key('d'), n) + #entry + #data
    call('HSET', key('m'), n, entry)
    if #data > 0 then call('HSET', key('d'), n, data) else call('HDEL', key('d'), n) end
  end
  for _, b in ipairs(unpacked(ARGV[18])) do call('HDEL', key('l'), 'b' .. b) end
  call('DEL', key('g'))
  for _, g in ipairs(unpacked(ARGV[17])) do call('RPUSH', key('g'), g) end
  call('HSET', key('l'), 'c', str(count), 'z', str(tonumber(size)), 'f', first, 'w', str(tonumber(rewrites) + 1))
end
if ns == '' and (all or ix ~= '') then
  local wk = call('HGET', T, 'wk') or ''
  call('HSET', T, 'hd', due)
  want[1] = ix
  if due ~= '' and (wk == '' or due < wk) then want[2] = due else want[2] = wk end
end
if all or stage ~= '' or #gone > 0 then
  f = raised(f)
  call('HSET', T, 'f', f)
end
call('HSET', T, 'w', token .. f .. ';0;')
if next(want) then place(thread, want) end
refresh(thread, ttl, {T .. ':s', key('l'), key('g'), key('i'), key('m'), key('d'), key('o')})
return {'ok'}
