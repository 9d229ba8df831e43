-- as: worker
SELECT pg_advisory_xact_lock(hashtextextended('memory.digest:' || %(tenant)s, 0));
