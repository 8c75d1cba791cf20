-- Every script begins with this. KEYS[1] is the hash of a thread (any key under the
-- prefix where there is none), KEYS[2] the prefix. Other keys are made of these. Places
-- and counts stay below 2^53, where a Lua number is exact; versions, and what else looks
-- like a number, come and go as text.

local T, P = KEYS[1], KEYS[2]
local call = redis.call

local function str(n) return string.format('%.0f', n) end

-- Calls a command with a list of arguments: in pieces, as Lua's stack is small.
local function many(command, key, list)
  for i = 1, #list, 1000 do call(command, key, unpack(list, i, math.min(i + 999, #list))) end
end

-- The fields of a hash, each with its value.
local function fields(key, list)
  local out = {}
  for i = 1, #list, 1000 do
    local stop = math.min(i + 999, #list)
    for k, v in ipairs(call('HMGET', key, unpack(list, i, stop))) do out[list[i + k - 1]] = v end
  end
  return out
end

local function threadkey(id)
  local name = string.gsub(id, '[%%{}]', function(c) return string.format('%%%02x', string.byte(c)) end)
  return P .. 't:{' .. name .. '}'
end

-- The newest place of a log and its oldest, as text, of what the thread says of it.
local function span(s)
  local newest, oldest = string.match(s, '^(%d+);(%d+)$')
  return newest or '0', oldest or '0' -- where no row is
end

-- Where a thread stands in each index, and its labels: i:at has it, so that the indexes
-- can be cleared of a thread that is gone.
local indexes, nowhere = {'i:threads', 'i:due', 'i:lease'}, ';;;'

-- Moves a thread in the indexes.
local function place(id, at)
  local was = call('HGET', P .. 'i:at', id) or nowhere
  if was == at then return end
  local old, new = {string.match(was, '^(%x*);(%x*);(%x*);(%x*)$')}, {string.match(at, '^(%x*);(%x*);(%x*);(%x*)$')}
  for i, index in ipairs(indexes) do
    if old[i] ~= new[i] then
      if new[i] ~= '' then call('ZADD', P .. index, 0, new[i] .. id) end
      if (old[i] or '') ~= '' then call('ZREM', P .. index, old[i] .. id) end
    end
  end
  if old[1] ~= new[1] or old[4] ~= new[4] then
    for label in string.gmatch(old[4] or '', '%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x') do call('ZREM', P .. 'i:l:' .. label, old[1] .. id) end
    for label in string.gmatch(new[4], '%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x') do call('ZADD', P .. 'i:l:' .. label, 0, new[1] .. id) end
  end
  if at == nowhere then call('HDEL', P .. 'i:at', id) else call('HSET', P .. 'i:at', id, at) end
end

-- Takes a thread that is gone out of all indexes.
local function forget(id)
  place(id, nowhere)
  call('ZREM', P .. 'i:names', id)
  call('ZREM', P .. 'i:expiry', id)
end

-- All keys a thread may have.
local function keysof(t)
  local all = {t, t .. ':s', t .. ':k'}
  for _, f in ipairs(call('HKEYS', t)) do
    if string.sub(f, 1, 1) == 'l' then
      all[#all + 1] = t .. ':m:' .. string.sub(f, 2)
      all[#all + 1] = t .. ':d:' .. string.sub(f, 2)
    end
  end
  return all
end
