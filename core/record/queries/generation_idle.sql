-- as: worker
-- Generations under construction nobody has driven for a while, nor has had in a batch job that may still end. One
-- that passed its gate waits for a person.
SELECT g.tenant, g.number
FROM generation g
WHERE g.state = 'building' AND coalesce(g.runner_until, g.changed_at) <= now() - %(idle)s::interval
  AND NOT EXISTS (SELECT FROM batch_job j
                  WHERE j.tenant = g.tenant AND j.generation = g.number
                    AND coalesce(j.ended_at, least(j.deadline, now())) > now() - %(idle)s::interval)
ORDER BY g.tenant, g.number;
