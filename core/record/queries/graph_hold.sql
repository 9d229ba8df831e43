-- as: app
-- Nobody else changes the tenant's graph until the transaction ends.
SELECT pg_advisory_xact_lock(graph_lock(%(tenant)s));
