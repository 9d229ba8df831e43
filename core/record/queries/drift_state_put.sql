-- as: app
-- A look that changed nothing is noted once a minute at the most.
INSERT INTO drift_state AS s (
    tenant, store, generation, looked_at, verdict, points, counted_at, clean_at, found_at, unsettled_since)
VALUES (
    %(tenant)s, %(store)s, %(generation)s, now(), %(verdict)s, %(points)s,
    CASE WHEN %(counted)s THEN now() END, CASE WHEN %(clean)s THEN now() END, CASE WHEN %(found)s THEN now() END,
    CASE WHEN %(unsettled)s THEN now() END)
ON CONFLICT (tenant, store, generation) DO UPDATE
SET looked_at = now(), verdict = excluded.verdict, points = coalesce(excluded.points, s.points),
    counted_at = coalesce(excluded.counted_at, s.counted_at), clean_at = coalesce(excluded.clean_at, s.clean_at),
    found_at = coalesce(excluded.found_at, s.found_at),
    unsettled_since = CASE WHEN %(unsettled)s THEN coalesce(s.unsettled_since, now()) END
WHERE s.verdict <> excluded.verdict OR s.points IS DISTINCT FROM excluded.points OR %(clean)s OR %(found)s
   OR s.looked_at < now() - interval '1 minute'
   OR (s.unsettled_since IS NULL) = %(unsettled)s;
