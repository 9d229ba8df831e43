-- as: worker
-- Events that streams were not given yet, of each tenant counted up to a bound, and seconds since the oldest of them.
SELECT coalesce(sum(n.waiting), 0)::bigint AS waiting, max(extract(epoch FROM now() - n.oldest))::float8 AS seconds
FROM (SELECT DISTINCT tenant FROM generation) AS t
LEFT JOIN event_relay r ON r.tenant = t.tenant
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, min(at) AS oldest FROM (
        SELECT e.at FROM event e WHERE e.tenant = t.tenant AND e.seq > coalesce(r.seq, 0) ORDER BY e.seq LIMIT %(most)s
    ) AS behind
) AS n;
