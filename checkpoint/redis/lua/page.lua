-- Records from place to place; the ranges follow one another in ARGV, each from
-- where to where, backwards if the second is less. The answer begins with what
-- is left: which range, and from where.
local ns, meta, most, bytes = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3]), tonumber(ARGV[4])
local m, d = T .. ':m:' .. ns, T .. ':d:' .. ns
local out, size, count = {'', ''}, 0, 0
for i = 5, #ARGV, 2 do
  local from, to = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  local step = 1
  if to < from then step = -1 end
  for n = from, to, step do
    if count == most or size >= bytes then
      out[1], out[2] = str((i - 5) / 2), str(n)
      return out
    end
    local place = str(n)
    local entry = call('HGET', m, place)
    if entry then
      local data = ''
      if not meta then data = call('HGET', d, place) or '' end
      local k = #out
      out[k + 1], out[k + 2], out[k + 3] = place, entry, data
      count, size = count + 1, size + #entry + #data
    end
  end
end
return out
