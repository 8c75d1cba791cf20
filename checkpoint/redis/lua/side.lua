-- Side rows between two keys; the last argument is how many.
local command = ARGV[1] == '1' and 'ZREVRANGEBYLEX' or 'ZRANGEBYLEX'
local list, out = call(command, T .. ':k', ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4]), {}
local values = fields(T .. ':s', list)
for i, k in ipairs(list) do
  out[2 * i - 1], out[2 * i] = k, values[k] or ''
end
return out
