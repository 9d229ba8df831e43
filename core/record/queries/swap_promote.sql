-- as: app
UPDATE generation
SET state = 'live', changed_at = now(), retire_at = NULL, runner = NULL, runner_until = NULL
WHERE tenant = %(tenant)s AND number = %(number)s AND state IN ('verified', 'retiring') AND dropping_at IS NULL
RETURNING number;
