-- What a thread says of itself, and of each log its newest row and how many there are;
-- then in which indexes it is not found though it should be.
local id, at = ARGV[1], call('HGET', P .. 'i:at', ARGV[1]) or nowhere
local th, logs = call('HMGET', T, 'h', 'v'), {}
if not th[1] then return {} end
local is = {string.match(at, '^(%x*);(%x*);(%x*);(%x*)$')}
local all = call('HGETALL', T)
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 1) == 'l' then
    local m, p, k = T .. ':m:' .. string.sub(all[i], 2), span(all[i + 1]), #logs
    logs[k + 1], logs[k + 2], logs[k + 3], logs[k + 4] = string.sub(all[i], 2), p, call('HGET', m, p) or '', str(call('HLEN', m))
  end
end
local out = {th[1], th[2] or '', at, str(#logs / 4), unpack(logs)}
local function look(index, member)
  if not call('ZSCORE', P .. index, member) then out[#out + 1] = index end
end
look('i:names', id)
for i, index in ipairs(indexes) do
  if (is[i] or '') ~= '' then look(index, is[i] .. id) end
end
for label in string.gmatch(is[4] or '', '%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x') do look('i:l:' .. label, is[1] .. id) end
if call('HLEN', T .. ':s') ~= call('ZCARD', T .. ':k') then out[#out + 1] = 's' end
return out
