-- as: app
-- Deletions stay until they are in the ledger on the object store.
WITH old AS MATERIALIZED (
    SELECT e.seq FROM event e
    LEFT JOIN deletion_ledger l ON l.tenant = e.tenant
    WHERE e.tenant = %(tenant)s AND e.at <= now() - %(kept)s::interval
      AND (e.kind <> 'memory.deleted' OR (e.xid, e.seq) <= (l.xid, l.seq))
    ORDER BY e.at LIMIT %(limit)s
)
DELETE FROM event WHERE tenant = %(tenant)s AND seq = ANY (ARRAY(SELECT seq FROM old));
