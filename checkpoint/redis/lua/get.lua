-- The record with an ID, or the head for an empty one.
local ns, id = ARGV[1], ARGV[2]
local n
if id == '' then
  n = call('HGET', T .. ':l:' .. ns, 'n')
else
  n = call('HGET', T .. ':i:' .. ns, id)
end
if not n then return {} end
return {n, call('HGET', T .. ':m:' .. ns, n) or '', call('HGET', T .. ':d:' .. ns, n) or ''}
