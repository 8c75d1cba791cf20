-- Rows of a log, see engine.RowQuery. The answer begins with the place from which it goes
-- on: '' at the end, 'x' if the newest row is missing.
local ns, from, to, meta, most, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[5] == '1', tonumber(ARGV[6]), tonumber(ARGV[7])
local m, d = T .. ':m:' .. ns, T .. ':d:' .. ns
local is = call('HGET', T, 'l' .. ns)
if not is then return {''} end
local newest, oldest = span(is)
if call('HEXISTS', m, newest) == 0 then return {'x', newest} end -- places could go on for ever
from, to = math.max(from, tonumber(oldest)), math.min(to, tonumber(newest))
local n, step, left = from, 1, to - from + 1
if ARGV[4] == '1' then n, step = to, -1 end
local out, size, count, looked = {''}, 0, 0, 0
while left > 0 do
  local list = {}
  for i = 1, math.min(left, most - count, 256) do list[i] = str(n + (i - 1) * step) end
  if #list == 0 or looked >= 4096 then
    out[1] = str(n)
    return out
  end
  for i, row in ipairs(call('HMGET', m, unpack(list))) do
    n, left, looked = n + step, left - 1, looked + 1
    if row then
      local data = not meta and call('HGET', d, list[i]) or ''
      local k = #out
      out[k + 1], out[k + 2], out[k + 3] = list[i], row, data
      count, size = count + 1, size + #row + #data
      if size >= bytes and left > 0 then
        out[1] = str(n)
        return out
      end
    end
  end
end
return out
