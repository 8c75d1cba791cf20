-- Every script begins with this; those that do more than read one log go on with
-- index.lua.
--
-- KEYS[1] is the hash of a thread (any key under the prefix where there is none),
-- KEYS[2] the prefix. Other keys are made of these. Numbers of records, places
-- and microseconds stay below 2^53, where a Lua number is exact; all else that
-- looks like a number comes and goes as text.

local T, P = KEYS[1], KEYS[2]
local call = redis.call

local function str(n) return string.format('%.0f', n) end
