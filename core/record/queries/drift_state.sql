-- as: app
SELECT store, generation, looked_at, verdict, points, counted_at, clean_at, found_at, unsettled_since,
       now() - unsettled_since AS unsettled_for, now() - greatest(clean_at, found_at) AS compared_ago
FROM drift_state
WHERE tenant = %(tenant)s;
