-- as: worker
-- Generations under construction nobody has driven for a while. One that passed its gate waits for a person.
SELECT tenant, number
FROM generation
WHERE state = 'building' AND coalesce(runner_until, changed_at) <= now() - %(idle)s::interval
ORDER BY tenant, number;
