-- as: app
-- The next deletions for the ledger. A transaction still in flight has a later xid than all that have ended before
-- the oldest such one began, so that nothing can come in behind the place this stops at.
SELECT e.xid::text AS xid, e.seq, e.memory_id AS id, e.version, e.at, (SELECT epoch FROM engine) AS epoch
FROM event e
WHERE e.tenant = %(tenant)s AND e.kind = 'memory.deleted'
  AND (e.xid, e.seq) > (
      coalesce((SELECT l.xid FROM deletion_ledger l WHERE l.tenant = %(tenant)s), '0'::xid8),
      coalesce((SELECT l.seq FROM deletion_ledger l WHERE l.tenant = %(tenant)s), 0))
  AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY e.xid, e.seq
LIMIT %(limit)s;
