local id = ARGV[1]
for _, k in ipairs(keysof(T)) do call('UNLINK', k) end
forget(id)
return {}
