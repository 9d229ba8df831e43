-- How far a tenant's deletions have been written to the ledger on the object store: in the order of (xid, seq),
-- of transactions that had ended. Sequence order alone is not commit order.
CREATE TABLE deletion_ledger (
    tenant text PRIMARY KEY,
    xid xid8 NOT NULL,
    seq bigint NOT NULL,
    shipped_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE deletion_ledger ENABLE ROW LEVEL SECURITY;
ALTER TABLE deletion_ledger FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON deletion_ledger TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY every_tenant ON deletion_ledger TO memory_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON deletion_ledger TO memory_app;
GRANT SELECT, DELETE ON deletion_ledger TO memory_worker;
CREATE INDEX event_deletions ON event (tenant, xid, seq) WHERE kind = 'memory.deleted';

-- After a restore: the epoch is raised, and events a later transaction number stands on (the dump came from another
-- server) are given one of this server's, or nothing would ever pass them.
GRANT UPDATE (epoch) ON engine TO memory_worker;
GRANT UPDATE (xid) ON event TO memory_worker;
CREATE POLICY restamped ON event FOR UPDATE TO memory_worker USING (true) WITH CHECK (true);
