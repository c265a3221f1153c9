-- read: reads several keys of one shard at the same moment.
-- asks    { { command, key without the tag, arguments … } … }
-- answers { now, what each command answered … }
-- keeps   nothing changes
-- uses    base
local answers = { string.format('%.17g', now) }
for i, look in ipairs(ask) do
  answers[i + 1] = call(look[1], KEYS[1] .. ':' .. look[2], unpack(look, 3))
end
return answers
