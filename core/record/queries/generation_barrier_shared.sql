-- as: app
-- Shared side of the registration barrier, which whoever enqueues holds: lock first, list in the next statement.
SELECT pg_advisory_xact_lock_shared(generations_lock(%(tenant)s));
