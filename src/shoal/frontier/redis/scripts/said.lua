-- said: the answer of a call that was made before the store was restarted.
-- asks    what that call asked, by the same caller and with the same number
-- answers its answer; nothing if it has not taken effect, or the answer is lost
-- uses    base
return repeated()
