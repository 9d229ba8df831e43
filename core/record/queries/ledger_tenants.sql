-- as: worker
-- Tenants with deletions the ledger does not hold yet, of transactions that have ended.
SELECT t.tenant
FROM (SELECT DISTINCT tenant FROM generation) AS t
LEFT JOIN deletion_ledger l ON l.tenant = t.tenant
WHERE EXISTS (
    SELECT FROM event e
    WHERE e.tenant = t.tenant AND e.kind = 'memory.deleted'
      AND (e.xid, e.seq) > (coalesce(l.xid, '0'::xid8), coalesce(l.seq, 0))
      AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
)
ORDER BY t.tenant;
