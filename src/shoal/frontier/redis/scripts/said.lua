-- said: what a call has answered that was made before the store was started anew.
-- asks    what that call asked, by the same caller and with the same number
-- answers its answer; nothing if it has not taken effect, or that was forgotten
-- uses    base
return repeated()
