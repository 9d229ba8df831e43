-- as: app
UPDATE generation
SET runner = NULL, runner_until = NULL
WHERE tenant = %(tenant)s AND number = %(number)s AND runner = %(runner)s;
