-- as: worker
-- Seconds the oldest deletion has waited for the ledger; null: none waits.
SELECT max(extract(epoch FROM now() - e.at))::float8 AS seconds
FROM (SELECT DISTINCT tenant FROM generation) AS t
LEFT JOIN deletion_ledger l ON l.tenant = t.tenant
CROSS JOIN LATERAL (
    SELECT at FROM event
    WHERE event.tenant = t.tenant AND kind = 'memory.deleted'
      AND (xid, seq) > (coalesce(l.xid, '0'::xid8), coalesce(l.seq, 0))
    ORDER BY xid, seq
    LIMIT 1
) AS e;
