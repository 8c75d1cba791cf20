local thread, ns, token = ARGV[1], ARGV[2], ARGV[3]
local claim, steal, fence = ARGV[4] == '1', ARGV[5], ARGV[6]
local leaseus, leasettl, holder, release = tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10] == '1'
local wake, ttl, drop = ARGV[11] == '1', tonumber(ARGV[12]), ARGV[13]
local removes, results, record = tonumber(ARGV[14]), tonumber(ARGV[15]), ARGV[16] == '1'
local at = 17 -- in ARGV

local function key(kind) return T .. ':' .. kind .. ':' .. ns end

local th = call('HMGET', T, 'v', 'f', 'w', 'hd', 'wk', 'p', 'rn')
local f = th[2] or '0'

-- The client may send a write again when no answer came. If the first one did
-- arrive, it left its token, and what it was answered: with the record, else
-- with the thread.
local function answered(s)
  if not s or string.sub(s, 1, 8) ~= token then return nil end
  local fence, ignored = string.match(s, '^(%d+);(%d+);', 9)
  return {'ok', fence, ignored}
end

local before = answered(th[3])
if before then return before end

local head, id, branch, seq, prevseq, ix, due, body, data, ord, info
if record then
  head, id, branch, seq, prevseq = ARGV[17], ARGV[18], ARGV[19], ARGV[20], ARGV[21]
  ix, due, body, data = ARGV[22], ARGV[23], ARGV[24], ARGV[25]
  at = 26
  ord = call('HGET', key('i'), id)
  if ord then
    before = answered(call('HGET', key('m'), ord))
    if before then return before end
  end
end

local held = lease(T)
if claim then
  if held and held.live and held.holder ~= holder and held.holder ~= steal then
    return {'busy', held.holder, held.till, held.ttl}
  end
  if steal ~= '' and (not held or held.holder ~= steal) then
    if not held then return {'busy', '', '', ''} end
    return {'busy', held.holder, held.till, held.ttl}
  end
  if fence ~= '0' and fence ~= asread(f) then return {'fenced', f, ''} end
  f = raised(f)
elseif fence ~= '0' and fence ~= f then
  return {'fenced', f, ''}
elseif (leaseus > 0 or release) and holder ~= '' and held and held.live and held.holder ~= holder then
  return {'fenced', f, held.holder}
end
if record then
  info = call('HMGET', key('l'), 'n', 'h', 'c', 'z', 'g', 'f', 'b' .. branch)
  local is = info[2] or ''
  if is ~= head then return {'conflict', is} end
  if ord then return {'exists'} end
  local last = info[7]
  if last then
    if last ~= prevseq then return {'place', last} end
  elseif branch == '' then
    if seq ~= '1' then return {'place', '0'} end
  elseif branch ~= id then
    return {'place', '0'}
  end
end

-- The last that may fail: is each key what it should be? Those of a log, and of a
-- thread, are looked at when it begins.
local known = call('SISMEMBER', T .. ':s', ns) == 1
if not known then
  for _, kind in ipairs({'m', 'd', 'o'}) do call('HLEN', key(kind)) end
  call('LLEN', key('g'))
end
if not th[1] then checkindexes() end

-- A server out of memory lets a script go on that has begun to write. So the
-- first write of all that may need memory is one that is refused then; it does
-- nothing if the thread exists.
if claim or wake or record or results > 0 or leaseus > 0 then call('HSETNX', T, 'v', '1') end

-- From here on nothing fails.
local set, want, effect = {}, {}, claim or wake or record
local function put(field, value)
  set[#set + 1] = field
  set[#set + 1] = value
end
local touched = {T .. ':s', key('l'), key('g'), key('i'), key('m'), key('d'), key('o')}

if claim then put('f', f) end
if leaseus > 0 then
  local till = now + leaseus
  put('lh', holder)
  put('lu', str(till))
  put('lt', leasettl)
  put('ls', str(leaseus))
  want[3], want[4] = timekey(till), timekey(now)
  effect = true
elseif held and (claim or release) then
  call('HDEL', T, 'lh', 'lu', 'lt', 'ls')
  want[3], want[4] = '', ''
  effect = true
end

local hd, wk = th[4] or '', th[5] or ''
if record and ns == '' then
  hd, want[1] = due, ix
end
if claim then wk = '' end
if wake then wk = timekey(now) end
if hd ~= (th[4] or '') or wk ~= (th[5] or '') then
  put('hd', hd)
  put('wk', wk)
  if hd ~= '' and (wk == '' or hd < wk) then want[2] = hd else want[2] = wk end
end

-- The results of one superstep stand in a hash of their own; o says which.
for _ = 1, removes do
  local n = call('HGET', key('o'), ARGV[at])
  if n then
    local r = T .. ':r:' .. n
    if call('HDEL', r, ARGV[at + 1]) == 1 then effect = true end
    if call('EXISTS', r) == 0 then call('HDEL', key('o'), ARGV[at]) end
  end
  at = at + 2
end

local ignored, seen = 0, {}
local placed, hashes = tonumber(th[6] or '0'), tonumber(th[7] or '0')
for i = 1, results do
  local step, field, replace, value = ARGV[at], ARGV[at + 1], ARGV[at + 2] == '1', ARGV[at + 3]
  at = at + 4
  local n = call('HGET', key('o'), step)
  local r = n and T .. ':r:' .. n
  if step == drop then
    if not replace and (seen[field] or r and call('HEXISTS', r, field) == 1) then ignored = ignored + 1 end
    seen[field] = true
  else
    if not n then
      hashes = hashes + 1
      n = str(hashes)
      r = T .. ':r:' .. n
      call('HSET', key('o'), step, n)
      known = known or call('SADD', T .. ':s', ns)
    end
    local mine = token .. i .. ';' -- which write stored it, for one that is sent again
    local old = call('HGET', r, field)
    if not old then
      placed = placed + 1
      call('HSET', r, field, mine .. str(placed) .. ';' .. value)
    elseif replace then
      local stands = string.match(old, '^%d+;(%d+);', 9)
      call('HSET', r, field, mine .. stands .. ';' .. value)
    elseif string.sub(old, 1, #mine) ~= mine then
      ignored = ignored + 1
    end
    effect = true
    touched[#touched + 1] = r
  end
end
if placed ~= tonumber(th[6] or '0') then put('p', str(placed)) end
if hashes ~= tonumber(th[7] or '0') then put('rn', str(hashes)) end
if drop ~= '' then
  local n = call('HGET', key('o'), drop)
  if n then
    call('UNLINK', T .. ':r:' .. n)
    call('HDEL', key('o'), drop)
    effect = true
  end
end

if record then
  local n = str(tonumber(info[1] or '0') + 1)
  local entry = token .. f .. ';' .. str(ignored) .. ';' .. body
  call('HSET', key('m'), n, entry)
  if #data > 0 then call('HSET', key('d'), n, data) end
  call('HSET', key('i'), id, n)
  call('HSET', key('l'), 'n', n, 'h', id, 'c', str(tonumber(info[3] or '0') + 1),
    'z', str(tonumber(info[4] or '0') + #entry + #data), 'g', branch, 'f', info[6] or string.sub(ix, 1, 24), 'b' .. branch, seq)
  if info[5] ~= branch then call('RPUSH', key('g'), n .. ';;' .. seq .. ';' .. branch) end
  if not known then call('SADD', T .. ':s', ns) end
elseif effect then
  put('w', token .. f .. ';' .. str(ignored) .. ';')
end
if not effect then
  if not th[1] then call('HDEL', T, 'v') end
  return {'ok', f, str(ignored)}
end
if not th[1] then
  forget(thread) -- one that ended may still be in the indexes
  call('ZADD', P .. 'i:names', 0, thread)
end
if #set > 0 then call('HSET', T, unpack(set)) end
if next(want) then place(thread, want) end
refresh(thread, ttl, touched)
return {'ok', f, str(ignored)}
