-- as: app
-- In how many memories, and in how many threads, each term stands. A term nothing holds is left out.
SELECT a.term, f.memories, f.threads
FROM unnest(%(terms)s::text[]) AS a (term)
CROSS JOIN LATERAL (
    SELECT count(*) AS memories, count(DISTINCT p.thread) AS threads
    FROM posting p
    WHERE p.tenant = %(tenant)s AND p.term = a.term
) AS f
WHERE f.memories > 0;
