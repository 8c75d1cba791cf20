-- The supersteps of a log that have results, for one that looks for damage.
return call('HKEYS', T .. ':o:' .. ARGV[1])
