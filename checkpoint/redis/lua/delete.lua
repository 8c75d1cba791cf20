for _, k in ipairs(keysof(T)) do call('UNLINK', k) end
forget(ARGV[1])
return {}
