-- The newest row of each log of a thread.
local out, th = {}, call('HGETALL', T)
for i = 1, #th, 2 do
  if string.sub(th[i], 1, 1) == 'l' then
    local ns, p, k = string.sub(th[i], 2), span(th[i + 1]), #out
    out[k + 1], out[k + 2], out[k + 3] = ns, p, call('HGET', T .. ':m:' .. ns, p) or ''
  end
end
return out
