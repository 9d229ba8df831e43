-- as: app
-- The lease of whoever drives a generation that is being built: taken when it is free or ours, for a while from now.
UPDATE generation
SET runner = %(runner)s, runner_until = now() + %(lease)s::interval
WHERE tenant = %(tenant)s AND number = %(number)s AND state IN ('building', 'verified')
  AND (runner IS NULL OR runner = %(runner)s OR runner_until <= now())
RETURNING state;
