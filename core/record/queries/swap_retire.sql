-- as: app
-- First half of the result: at no moment are two live.
UPDATE generation
SET state = 'retiring', changed_at = now(), retire_at = now() + %(grace)s::interval
WHERE tenant = %(tenant)s AND number = %(number)s AND state = 'live'
RETURNING number;
