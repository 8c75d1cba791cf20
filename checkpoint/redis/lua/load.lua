-- The server's clock, and of a thread its header and the newest row of a log, with the
-- places of its rows.
local ns, clock = ARGV[1], call('TIME')
local th = call('HMGET', T, 'h', 'l' .. ns)
local out = {clock[1], clock[2], th[1] or '', th[2] or ''}
if not th[2] then return out end
local p = span(th[2])
out[5], out[6] = call('HGET', T .. ':m:' .. ns, p) or '', call('HGET', T .. ':d:' .. ns, p) or ''
return out
