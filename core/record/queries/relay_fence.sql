-- as: worker
-- Move the fence, if all that was under way when it was set has ended. One that came with a dump of another server is
-- of a transaction this one has not come to: it is set anew.
INSERT INTO event_fence AS f (one, seq, xid) VALUES (true, %(seq)s, pg_current_xact_id())
ON CONFLICT (one) DO UPDATE
SET safe = CASE WHEN f.xid < pg_snapshot_xmin(pg_current_snapshot()) THEN greatest(f.safe, f.seq) ELSE f.safe END,
    seq = CASE WHEN f.xid < pg_snapshot_xmin(pg_current_snapshot()) OR f.xid > excluded.xid
               THEN excluded.seq ELSE f.seq END,
    xid = CASE WHEN f.xid < pg_snapshot_xmin(pg_current_snapshot()) OR f.xid > excluded.xid
               THEN excluded.xid ELSE f.xid END
RETURNING safe;
