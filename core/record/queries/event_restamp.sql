-- as: worker
-- Events of transactions this server has not come to yet were restored from another one.
UPDATE event SET xid = pg_current_xact_id() WHERE xid > pg_current_xact_id();
