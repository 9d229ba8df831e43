-- as: app
-- Give up one that is being built: by a person at any time, else only if nobody has driven it for a while (see
-- generation_idle).
UPDATE generation g
SET state = 'aborted', reason = %(reason)s, changed_at = now(), retire_at = now(), runner = NULL, runner_until = NULL
WHERE tenant = %(tenant)s AND number = %(number)s AND state IN ('building', 'verified')
  AND (%(idle)s::interval IS NULL
       OR (coalesce(runner_until, changed_at) <= now() - %(idle)s::interval
           AND NOT EXISTS (SELECT FROM batch_job j
                           WHERE j.tenant = g.tenant AND j.generation = g.number
                             AND coalesce(j.ended_at, least(j.deadline, now())) > now() - %(idle)s::interval)))
RETURNING number;
