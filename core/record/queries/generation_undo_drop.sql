-- as: app
UPDATE generation
SET dropping_at = NULL
WHERE tenant = %(tenant)s AND number = %(number)s AND state IN ('retiring', 'aborted');
