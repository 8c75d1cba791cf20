-- The record with an ID, or the head for an empty one; first of all the thread's
-- fence.
local ns, id = ARGV[1], ARGV[2]
local f = call('HGET', T, 'f') or '0'
local n
if id == '' then
  n = call('HGET', T .. ':l:' .. ns, 'n')
else
  n = call('HGET', T .. ':i:' .. ns, id)
end
if not n then return {f} end
return {f, n, call('HGET', T .. ':m:' .. ns, n) or '', call('HGET', T .. ':d:' .. ns, n) or ''}
