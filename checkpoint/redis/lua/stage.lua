-- Prepares some rows of a log as it is to be: those at places, as far as so many bytes,
-- which are copied, and those that are given. The keys end by themselves if it never comes
-- to it. The answer is how many places are done, and how many rows and data there are.
local ns, stage, ms, bytes, places = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local m, d, M, D = T .. ':m:' .. ns, T .. ':d:' .. ns, T .. ':~m:' .. stage, T .. ':~d:' .. stage

local function keep()
  call('PEXPIRE', M, ms)
  call('PEXPIRE', D, ms)
end

keep() -- a script that has written something goes on when memory is short, see commit.lua
local list, done, size = {}, 0, 0
for i = 1, places do list[i] = ARGV[5 + i] end
local rows, left = fields(m, list), {}
for _, p in ipairs(list) do
  if size >= bytes then break end
  done = done + 1
  if rows[p] then
    left[#left + 1] = p
    left[#left + 1] = rows[p]
    local data = call('HGET', d, p)
    if data then call('HSET', D, p, data) end
    size = size + #rows[p] + #(data or '')
  end
end
if #left > 0 then many('HSET', M, left) end
for i = 6 + places, #ARGV, 3 do
  local p, data = ARGV[i], ARGV[i + 2]
  call('HSET', M, p, string.match(call('HGET', M, p) or '00000000' .. '0;', '^........%d+;') .. ARGV[i + 1])
  if data ~= '' then call('HSET', D, p, data) else call('HDEL', D, p) end
end
keep()
return {str(done), str(call('HLEN', M)), str(call('HLEN', D))}
