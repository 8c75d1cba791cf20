local out = {}
for _, ns in ipairs(call('SMEMBERS', T .. ':s')) do
  local info = call('HMGET', T .. ':l:' .. ns, 'h', 'c', 'z')
  if info[1] then
    for _, v in ipairs({ns, info[1], info[2], info[3]}) do out[#out + 1] = v end
  end
end
return out
