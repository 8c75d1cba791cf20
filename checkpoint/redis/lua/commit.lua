-- One engine.Commit, see encode in Go.
local id, token, version, renewed, header, at, ttl, need = unpack(ARGV, 1, 8)
ttl, need = tonumber(ttl), need == '1'
local cursor = 9
local function group(size) -- a count, then so many times so many arguments
  local n, out = tonumber(ARGV[cursor]) * size, {}
  for i = 1, n do out[i] = ARGV[cursor + i] end
  cursor = cursor + 1 + n
  return out
end
local absent, deleted, puts, cleared, logs = group(2), group(1), group(3), group(2), {}
while cursor <= #ARGV do
  local ns, was, now, oldest, stage, nm, nd = unpack(ARGV, cursor, cursor + 6)
  cursor = cursor + 7
  logs[#logs + 1] = {
    ns = ns, was = was, now = now, oldest = oldest, stage = stage, nm = tonumber(nm), nd = tonumber(nd),
    m = T .. ':m:' .. ns, d = T .. ':d:' .. ns, rows = group(3), gone = group(2),
  }
end
local S, K = T .. ':s', T .. ':k'

local want = {'v', 'w', 'x', 'n'}
for _, l in ipairs(logs) do want[#want + 1] = 'l' .. l.ns end
local th = fields(T, want)
local keys = {}
for i = 1, #puts, 3 do keys[#keys + 1] = puts[i] end
local side = fields(S, keys)

-- The client sends a commit again when no answer came. If the first one did arrive, it
-- left its token, and what it was answered: with the row that it appended, else with the
-- thread; and its token with side rows.
local function mine(s) return s and string.sub(s, 1, 8) == token end
local function answer(s) return {'ok', string.match(s, '^(%d+);', 9)} end
if mine(th.w) then return answer(th.w) end
local stale = (th.v or '0') ~= version
for _, l in ipairs(logs) do
  local is = th['l' .. l.ns]
  l.is, l.first = '0', '0'
  if is then l.is, l.first = span(is) end
  if l.is ~= l.was then
    stale = true
    local row = l.rows[1] and call('HGET', l.m, l.rows[1])
    if mine(row) then return answer(row) end
  end
end
local again, seen, ignored = false, {}, 0
for i = 1, #puts, 3 do
  local k = puts[i]
  again = again or mine(side[k])
  if puts[i + 2] == '0' and (seen[k] or side[k] and not mine(side[k])) then ignored = ignored + 1 end
  seen[k] = true
end
if again then return {'ok', str(ignored)} end
if stale then return {'stale'} end

local function keysin(from, below, ...)
  return call('ZRANGEBYLEX', K, '[' .. from, below == '' and '+' or '(' .. below, ...)
end
for i = 1, #absent, 2 do
  if keysin(absent[i], absent[i + 1], 'LIMIT', 0, 1)[1] then return {'stale'} end
end
local function staged(l, kind) return T .. ':~' .. kind .. ':' .. l.stage end
for _, l in ipairs(logs) do
  if l.stage ~= '' and (call('HLEN', staged(l, 'm')) ~= l.nm or call('HLEN', staged(l, 'd')) ~= l.nd) then return {'stale'} end
end

-- The last that may fail: is each key what it should be? Those of a log, and of a thread,
-- are looked at when it begins.
for _, l in ipairs(logs) do
  if l.is == '0' then
    call('HLEN', l.m)
    call('HLEN', l.d)
  end
end
if not th.v then
  call('HLEN', S)
  for _, k in ipairs({K, P .. 'i:threads', P .. 'i:due', P .. 'i:lease', P .. 'i:names', P .. 'i:expiry'}) do call('ZCARD', k) end
  call('HLEN', P .. 'i:at')
end

-- A server out of memory lets a script go on that has begun to write. So the first write
-- of all is one that is refused then, if the commit may be; it does nothing if the thread
-- exists. One that makes room begins with a write that never is.
if need then call('HSETNX', T, 'v', version) else call('HDEL', T, '') end

-- From here on nothing fails.
local set, touched = {}, {S, K}
local function put(field, value)
  set[#set + 1] = field
  set[#set + 1] = value
end

if #deleted > 0 then
  many('HDEL', S, deleted)
  many('ZREM', K, deleted)
  for _, k in ipairs(deleted) do side[k] = nil end
end
local n, values, new = tonumber(th.n or '0'), {}, {}
ignored = 0
for i = 1, #puts, 3 do
  local k, old = puts[i], side[puts[i]]
  if old and puts[i + 2] == '0' then
    ignored = ignored + 1
  else
    local order = old and string.match(old, '^(%d+);', 9)
    if not order then
      n = n + 1
      order = str(n)
      new[#new + 1] = 0
      new[#new + 1] = k
    end
    side[k] = token .. order .. ';' .. puts[i + 1]
    values[#values + 1] = k
    values[#values + 1] = side[k]
  end
end
if #values > 0 then many('HSET', S, values) end
if #new > 0 then
  many('ZADD', K, new)
  put('n', str(n))
end
for i = 1, #cleared, 2 do
  local gone = keysin(cleared[i], cleared[i + 1])
  if #gone > 0 then
    many('HDEL', S, gone)
    many('ZREM', K, gone)
  end
end

local left = false -- with a row
for _, l in ipairs(logs) do
  touched[#touched + 1], touched[#touched + 2] = l.m, l.d
  if l.stage ~= '' or l.now == '0' then
    for _, kind in ipairs({'m', 'd'}) do
      call('UNLINK', l[kind])
      if l.stage ~= '' and call('EXISTS', staged(l, kind)) == 1 then
        call('RENAME', staged(l, kind), l[kind])
        call('PERSIST', l[kind])
      end
    end
  end
  local gone = {}
  for i = 1, #l.gone, 2 do
    for p = tonumber(l.gone[i]), tonumber(l.gone[i + 1]) do gone[#gone + 1] = str(p) end
  end
  many('HDEL', l.m, gone)
  many('HDEL', l.d, gone)
  for i = 1, #l.rows, 3 do
    local p, data, before = l.rows[i], l.rows[i + 2], token .. str(ignored) .. ';'
    if tonumber(p) <= tonumber(l.is) then -- it is replaced
      before = string.match(call('HGET', l.m, p) or before, '^........%d+;')
      if data == '' then call('HDEL', l.d, p) end
    else
      left = true
    end
    call('HSET', l.m, p, before .. l.rows[i + 1])
    if data ~= '' then call('HSET', l.d, p, data) end
  end
  if l.now == '0' then
    call('HDEL', T, 'l' .. l.ns)
  else
    local first = l.oldest == '' and l.first or l.oldest
    if #l.gone > 0 or l.stage ~= '' then
      while tonumber(first) < tonumber(l.now) and call('HEXISTS', l.m, first) == 0 do first = str(tonumber(first) + 1) end
    end
    put('l' .. l.ns, l.now .. ';' .. first)
  end
end

if not left then put('w', token .. str(ignored) .. ';') end
if renewed ~= '' then
  put('v', renewed)
  put('h', header)
  place(id, at)
end
if not th.v then call('ZADD', P .. 'i:names', 0, id) end
if #set > 0 then many('HSET', T, set) end

-- All keys of a thread end at the same moment. As there may be many, it is put off in
-- steps of a twentieth; in between, only the keys that may be new need to be told.
-- Threads that ended are taken out of the indexes, a few at a time.
local x = tonumber(th.x or '0')
if ttl == 0 then
  if x > 0 then
    call('HDEL', T, 'x')
    for _, k in ipairs(keysof(T)) do call('PERSIST', k) end
  end
  if x > 0 or not th.v then call('ZREM', P .. 'i:expiry', id) end
  return {'ok', str(ignored)}
end
local clock = call('TIME')
local ms = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local most = ttl + math.floor(ttl / 20) + 1
if x - ms < ttl or x - ms > most then
  x = ms + most
  call('HSET', T, 'x', str(x))
  call('ZADD', P .. 'i:expiry', str(x), id)
  touched = keysof(T)
end
for _, k in ipairs(touched) do call('PEXPIREAT', k, str(x)) end
for _, other in ipairs(call('ZRANGEBYSCORE', P .. 'i:expiry', '-inf', str(ms), 'LIMIT', 0, 4)) do
  local t = threadkey(other)
  local later = call('HGET', t, 'x')
  if later then
    call('ZADD', P .. 'i:expiry', later, other)
  elseif call('EXISTS', t) == 1 then
    call('ZREM', P .. 'i:expiry', other)
  else
    forget(other)
  end
end
return {'ok', str(ignored)}
