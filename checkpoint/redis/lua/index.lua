-- Scripts that write, and those about many threads, have this after common.lua:
-- the clock, leases, indexes and all keys of a thread.

local clock = call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2]) -- in microseconds

-- The text form of a time that sorts as the time does, see timeKey in Go.
local function timekey(us)
  local sec = math.floor(us / 1000000)
  return string.format('%08x%08x%08x', 2147483648 + math.floor(sec / 4294967296), sec % 4294967296, (us % 1000000) * 1000)
end

local function threadkey(id)
  local name = string.gsub(id, '[%%{}]', function(c) return string.format('%%%02x', string.byte(c)) end)
  return P .. 't:{' .. name .. '}'
end

-- The parts of a text that Go made with pack.
local function unpacked(s)
  local out, at = {}, 1
  while at <= #s do
    local colon = string.find(s, ':', at, true)
    local stop = colon + tonumber(string.sub(s, at, colon - 1))
    out[#out + 1] = string.sub(s, colon + 1, stop)
    at = stop + 1
  end
  return out
end

-- The fence after f. The first one is the microseconds since 1970: above those that
-- a deleted thread of this name had, of which nothing is left.
local function raised(f)
  if f == '0' then f = str(now) end
  return str(tonumber(f) + 1)
end

-- A fence as Head returns it.
local function asread(f)
  if f == '0' then return '-1' end
  return f
end

-- The lease of a thread, nil for none.
local function lease(t)
  local l = call('HMGET', t, 'lh', 'lu', 'lt', 'ls')
  if not l[1] then return nil end
  local till = tonumber(l[2])
  return {holder = l[1], till = l[2], ttl = l[3], live = now < till and till - now <= tonumber(l[4])}
end

-- Where a thread stands in each index: i:at has it all, so that an index can be
-- cleared of a thread that is gone.
local indexes = {'i:threads', 'i:due', 'i:until', 'i:since'}

local function places(id)
  local at = call('HGET', P .. 'i:at', id) or ';;;'
  return {string.match(at, '^(%x*);(%x*);(%x*);(%x*)$')}
end

-- Has a thread found by labels of 16 letters each, instead of those that it had; nil for
-- a thread that is in no list.
local function label(id, labels)
  local old = call('HGET', P .. 'i:labels', id)
  if old == (labels or false) then return end
  if old then
    for i = 1, #old, 16 do call('SREM', P .. 'i:l:' .. string.sub(old, i, i + 15), id) end
  end
  if not labels then
    call('HDEL', P .. 'i:labels', id)
    return
  end
  for i = 1, #labels, 16 do call('SADD', P .. 'i:l:' .. string.sub(labels, i, i + 15), id) end
  call('HSET', P .. 'i:labels', id, labels)
end

-- Moves a thread in the indexes. Where want has nil it stays, '' takes it out. The labels
-- of its head follow the place by time.
local function place(id, want)
  if want[1] == '' then
    label(id, nil)
  elseif want[1] then
    label(id, string.sub(want[1], 25))
    want[1] = string.sub(want[1], 1, 24)
  end
  local is, new, changed = places(id), {}, false
  for i, index in ipairs(indexes) do
    local old = is[i] or ''
    new[i] = want[i] or old
    if new[i] ~= old then
      changed = true
      if new[i] ~= '' then call('ZADD', P .. index, 0, new[i] .. id) end
      if old ~= '' then call('ZREM', P .. index, old .. id) end
    end
  end
  if not changed then return end
  if new[1] .. new[2] .. new[3] .. new[4] == '' then
    call('HDEL', P .. 'i:at', id)
  else
    call('HSET', P .. 'i:at', id, table.concat(new, ';'))
  end
end

-- Takes a thread that is gone out of all indexes.
local function forget(id)
  place(id, {'', '', '', ''})
  call('ZREM', P .. 'i:names', id)
  call('ZREM', P .. 'i:expiry', id)
end

-- All keys a thread may have.
local function keysof(t)
  local all = {t, t .. ':s'}
  for _, ns in ipairs(call('SMEMBERS', t .. ':s')) do
    for _, kind in ipairs({'l', 'g', 'i', 'm', 'd', 'o'}) do all[#all + 1] = t .. ':' .. kind .. ':' .. ns end
    for _, n in ipairs(call('HVALS', t .. ':o:' .. ns)) do all[#all + 1] = t .. ':r:' .. n end
  end
  return all
end

-- Fails, before anything is written, if something of another program stands where
-- an index should.
local function checkindexes()
  for _, index in ipairs(indexes) do call('ZCARD', P .. index) end
  call('ZCARD', P .. 'i:names')
  call('ZCARD', P .. 'i:expiry')
  call('HLEN', P .. 'i:at')
  call('HLEN', P .. 'i:labels')
end

-- Keeps the keys of thread id for another ttl milliseconds, or for ever if ttl is
-- 0. All keys of a thread end at the same moment. As there may be many, the moment
-- is put off in steps of a twentieth; in between, only the keys that are
-- new, among those in touched, need to be told. Threads that ended are taken
-- out of the indexes, a few at a time.
local function refresh(id, ttl, touched)
  local x, ms = tonumber(call('HGET', T, 'x') or '0'), math.floor(now / 1000)
  if ttl == 0 then
    if x > 0 then
      call('HDEL', T, 'x')
      call('ZREM', P .. 'i:expiry', id)
      for _, k in ipairs(keysof(T)) do call('PERSIST', k) end
    end
    return
  end
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
end
