-- as: app
-- Under the barrier: no writer lists it any more. Its work goes afterwards, in pieces: see generation_forget.
UPDATE generation
SET state = 'dropped', changed_at = now(), dropping_at = NULL
WHERE tenant = %(tenant)s AND number = %(number)s AND state IN ('retiring', 'aborted') AND dropping_at IS NOT NULL
RETURNING number;
