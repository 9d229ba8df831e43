-- as: app
-- Exclusive side of the registration barrier: waits for every writer that listed the generations before.
SELECT pg_advisory_xact_lock(generations_lock(%(tenant)s));
