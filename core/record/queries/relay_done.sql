-- as: app
INSERT INTO event_relay AS r (tenant, seq) VALUES (%(tenant)s, %(seq)s)
ON CONFLICT (tenant) DO UPDATE SET seq = greatest(r.seq, excluded.seq), relayed_at = now();
