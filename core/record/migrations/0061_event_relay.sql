-- How far a tenant's events have been given to its stream, in the order of seq: for one memory that is the order of
-- its commits, because a change takes its number while it holds the row.
CREATE TABLE event_relay (
    tenant text PRIMARY KEY,
    seq bigint NOT NULL,
    relayed_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE event_relay ENABLE ROW LEVEL SECURITY;
ALTER TABLE event_relay FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON event_relay TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY every_tenant ON event_relay FOR SELECT TO memory_worker USING (true);
GRANT SELECT, INSERT, UPDATE ON event_relay TO memory_app;
GRANT SELECT ON event_relay TO memory_worker;

-- Up to which number every event that will ever be there is there. Whoever moves the fence reads the last number given
-- out, and takes a transaction number after that: each event up to the one is of a transaction before the other. Once
-- all transactions up to xid have ended, nothing can come in at or before seq, and `safe` follows.
CREATE TABLE event_fence (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL,
    xid xid8 NOT NULL,
    safe bigint NOT NULL DEFAULT 0
);
GRANT SELECT, INSERT, UPDATE ON event_fence TO memory_worker;
GRANT SELECT ON SEQUENCE event_seq_seq TO memory_worker;
