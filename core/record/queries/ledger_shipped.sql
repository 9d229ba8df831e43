-- as: app
INSERT INTO deletion_ledger AS l (tenant, xid, seq) VALUES (%(tenant)s, %(xid)s::xid8, %(seq)s)
ON CONFLICT (tenant) DO UPDATE SET xid = excluded.xid, seq = excluded.seq, shipped_at = now()
WHERE (l.xid, l.seq) < (excluded.xid, excluded.seq);
