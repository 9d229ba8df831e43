-- as: app
INSERT INTO drift_report (tenant, id, store, generation, depth, verdict, records, points, findings, note, dry)
VALUES (%(tenant)s, %(id)s, %(store)s, %(generation)s, %(depth)s, %(verdict)s, %(records)s, %(points)s, %(findings)s,
        %(note)s, %(dry)s)
ON CONFLICT (tenant, id) DO NOTHING;
