-- as: app
-- What is left of a tenant's record besides its memories, tombstones and generations, a batch at a time; how much went.
-- What belongs to a memory that is there again stays, and so does a deletion the ledger has not got yet.
WITH events AS (
    DELETE FROM event WHERE tenant = %(tenant)s AND seq = ANY (ARRAY(
        SELECT e.seq FROM event e LEFT JOIN deletion_ledger l ON l.tenant = e.tenant
        WHERE e.tenant = %(tenant)s AND (e.kind <> 'memory.deleted' OR (e.xid, e.seq) <= (l.xid, l.seq))
          AND NOT EXISTS (SELECT FROM memory m WHERE m.tenant = %(tenant)s AND m.id = e.memory_id)
        LIMIT %(limit)s))
    RETURNING seq
), items AS (
    DELETE FROM batch_item WHERE tenant = %(tenant)s AND id = ANY (ARRAY(
        SELECT b.id FROM batch_item b
        WHERE b.tenant = %(tenant)s
          AND NOT EXISTS (SELECT FROM memory m WHERE m.tenant = %(tenant)s AND m.id = ANY (b.memory_ids))
        LIMIT %(limit)s))
    RETURNING id
), jobs AS (
    DELETE FROM batch_job WHERE tenant = %(tenant)s AND id = ANY (ARRAY(
        SELECT j.id FROM batch_job j
        WHERE j.tenant = %(tenant)s AND j.state <> 'preparing'
          AND NOT EXISTS (SELECT FROM batch_item b WHERE b.tenant = %(tenant)s AND b.job = j.id)
        LIMIT %(limit)s))
    RETURNING id
), used AS (
    DELETE FROM embedding_use WHERE tenant = %(tenant)s
)
SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM items) + (SELECT count(*) FROM jobs) AS gone;
