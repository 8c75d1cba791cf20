local n = call('HGET', T .. ':o:' .. ARGV[1], ARGV[2])
if not n then return {} end
return call('HVALS', T .. ':r:' .. n)
