-- Where the records of a log stand: last place, count of rewrites, head, its
-- thread's records, whether the last place has one, and the pieces of branches.
local ns = ARGV[1]
local info = call('HMGET', T .. ':l:' .. ns, 'n', 'w', 'h', 'c')
if not info[1] then return {} end
local out = {info[1], info[2] or '0', info[3], info[4], str(call('HEXISTS', T .. ':m:' .. ns, info[1]))}
for _, g in ipairs(call('LRANGE', T .. ':g:' .. ns, 0, -1)) do out[#out + 1] = g end
return out
