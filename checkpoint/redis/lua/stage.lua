-- Copies records that a rewrite leaves to where it is prepared, a few at a time; the
-- keys there end by themselves if it never comes to it. The answer is the bytes of
-- these records, and how many in all have data.
local ns, stage, ms = ARGV[1], ARGV[2], ARGV[3]
local function key(kind) return T .. ':' .. kind .. ':' .. ns end
local function staged(kind) return T .. ':~' .. kind .. ':' .. stage end

local function keep()
  for _, kind in ipairs({'m', 'd', 'i'}) do call('PEXPIRE', staged(kind), ms) end
end

keep() -- a script that has written something goes on when memory is short, see write.lua
local left, with, size = unpacked(ARGV[4]), {}, 0
for i = 5, #ARGV, 3 do with[ARGV[i]] = {ARGV[i + 1], ARGV[i + 2]} end
for i = 1, #left, 2 do
  local n = left[i]
  local entry, data, new = call('HGET', key('m'), n), call('HGET', key('d'), n) or '', with[n]
  if not entry then return {'again'} end
  if new then
    entry, data = string.sub(entry, 1, 8) .. string.match(entry, '^%d+;%d+;', 9) .. new[1], new[2]
  end
  call('HSET', staged('m'), n, entry)
  if #data > 0 then call('HSET', staged('d'), n, data) end
  call('HSET', staged('i'), left[i + 1], n)
  size = size + #entry + #data
end
keep()
return {'ok', str(size), str(call('HLEN', staged('d')))}
