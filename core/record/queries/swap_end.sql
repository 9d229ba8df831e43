-- as: app
UPDATE swap_intent
SET ended_at = now(), outcome = %(outcome)s
WHERE tenant = %(tenant)s AND number = %(number)s AND owner = %(owner)s AND ended_at IS NULL
RETURNING number;
